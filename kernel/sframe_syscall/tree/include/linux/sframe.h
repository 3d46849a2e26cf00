/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * SFrame sections of user space: registration per mm, and the unwind step.
 */
#ifndef _LINUX_SFRAME_H
#define _LINUX_SFRAME_H

#include <linux/maple_tree.h>
#include <linux/mm_types.h>
#include <linux/unwind_user_types.h>
#include <uapi/linux/sframe.h>

/* GNU segment type of an .sframe section */
#define PT_GNU_SFRAME	0x6474e554

/* One registration, as /proc/PID/sframe shows it */
struct sframe_info {
	unsigned long text_start;
	unsigned long text_end;
	unsigned long sframe_start;
	unsigned long sframe_size;
	unsigned long flags;
	unsigned int version;
};

#ifdef CONFIG_UNWIND_USER_SFRAME

void sframe_mm_init(struct mm_struct *mm);
int sframe_mm_dup(struct mm_struct *mm, struct mm_struct *oldmm);
void sframe_mm_exit(struct mm_struct *mm);
void __sframe_munmap(struct mm_struct *mm, unsigned long start, unsigned long end);
void sframe_exec(unsigned long sframe_start, unsigned long sframe_size,
		 unsigned long text_start, unsigned long text_size);

/* Drop the registrations of text that goes away. One load for everybody else. */
static inline void sframe_munmap(struct mm_struct *mm, unsigned long start,
				 unsigned long end)
{
	if (unlikely(!mtree_empty(&mm->sframe_mt)))
		__sframe_munmap(mm, start, end);
}

bool sframe_next(struct mm_struct *mm, unsigned long *index, struct sframe_info *info);
int unwind_user_next_sframe(struct unwind_user_state *state);

#else /* !CONFIG_UNWIND_USER_SFRAME */

static inline void sframe_mm_init(struct mm_struct *mm) { }
static inline int sframe_mm_dup(struct mm_struct *mm, struct mm_struct *oldmm)
{
	return 0;
}

static inline void sframe_mm_exit(struct mm_struct *mm) { }
static inline void sframe_munmap(struct mm_struct *mm, unsigned long start,
				 unsigned long end) { }
static inline void sframe_exec(unsigned long sframe_start, unsigned long sframe_size,
			       unsigned long text_start, unsigned long text_size) { }
static inline int unwind_user_next_sframe(struct unwind_user_state *state)
{
	return -EAGAIN;
}

#endif /* CONFIG_UNWIND_USER_SFRAME */

#endif /* _LINUX_SFRAME_H */
