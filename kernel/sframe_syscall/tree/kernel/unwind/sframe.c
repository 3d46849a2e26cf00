// SPDX-License-Identifier: GPL-2.0-only
/*
 * SFrame sections of user space: which section describes which text.
 *
 * An mm keeps its registrations in a maple tree by text range, searched by the
 * deferred unwinder for each PC, and in a second one by section address, so
 * that unregistering a section never walks the first. exec registers what the
 * executable and its interpreter ship; sframe_register(2) adds the rest.
 *
 * Locking: mm->sframe_lock serialises changes and nests inside mmap_lock,
 * under which the checks of the text hold until the entry is in the tree.
 * Readers copy an entry under SRCU and let go of it before they touch user
 * memory: a reader that sleeps on a userfaultfd must not hold back the frees
 * of everybody else.
 */
#include <linux/compat.h>
#include <linux/fs.h>
#include <linux/kobject.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sframe.h>
#include <linux/slab.h>
#include <linux/srcu.h>
#include <linux/syscalls.h>
#include <linux/sysctl.h>
#include <linux/uaccess.h>
#include <linux/unwind_user.h>

/* A section may make one lookup read thousands of times: a fatal signal ends that. */
static inline int sframe_user_read(void *dst, u64 addr, size_t len)
{
	if (fatal_signal_pending(current))
		return -EINTR;
	return copy_from_user(dst, (const void __user *)addr, len) ? -EFAULT : 0;
}

static int sframe_user_reg(unsigned int regno, u64 *value);

#define SFRAME_CORE_READ(io, dst, addr, len)	((void)(io), sframe_user_read(dst, addr, len))
#define SFRAME_CORE_REG(io, regno, value)	((void)(io), sframe_user_reg(regno, value))
/* Pairs with the release store by which user space publishes appended entries. */
#define SFRAME_CORE_RMB()			smp_rmb()
#include "sframe_core.h"

#define SFRAME_SETUP_FLAGS	(SFRAME_GROWABLE | SFRAME_REPLACE | SFRAME_FUNC_BASE)

/**
 * struct sframe_entry - one registered text range
 * @sec: the section, its header checked
 * @text_start: first address covered
 * @text_end: first address behind
 * @sframe_size: size of the section as registered
 * @flags: as registered, but for SFRAME_REPLACE
 * @same_section: ring of the entries that share the section
 * @rcu: for call_srcu(), when it is in no ring any more
 */
struct sframe_entry {
	struct sframe_section	sec;
	unsigned long		text_start;
	unsigned long		text_end;
	unsigned long		sframe_size;
	unsigned long		flags;
	union {
		struct list_head	same_section;
		struct rcu_head		rcu;
	};
};

static struct kmem_cache *sframe_cache __ro_after_init;
DEFINE_STATIC_SRCU(sframe_srcu);

/* As generous as vm.max_map_count. */
static unsigned int sysctl_max_sframe_count __read_mostly = DEFAULT_MAX_MAP_COUNT;

void sframe_mm_init(struct mm_struct *mm)
{
	mt_init_flags(&mm->sframe_mt, MT_FLAGS_USE_RCU);
	mt_init_flags(&mm->sframe_sections, 0);
	mutex_init(&mm->sframe_lock);
	mm->sframe_count = 0;
}

static void sframe_entry_free_srcu(struct rcu_head *rcu)
{
	kmem_cache_free(sframe_cache, container_of(rcu, struct sframe_entry, rcu));
}

/*
 * Take a range out of a tree. mtree_erase() will not do: in some versions it
 * returns the entry as erased although it got no memory to erase it.
 */
static void sframe_tree_clear(struct maple_tree *mt, unsigned long first, unsigned long last)
{
	while (mtree_store_range(mt, first, last, NULL, GFP_KERNEL | __GFP_NOFAIL))
		cond_resched();
}

/* Index by section: the tree holds one entry, the ring the others. */
static int sframe_section_link(struct mm_struct *mm, struct sframe_entry *entry)
{
	struct sframe_entry *first;

	INIT_LIST_HEAD(&entry->same_section);
	first = mtree_load(&mm->sframe_sections, entry->sec.addr);
	if (first) {
		list_add_tail(&entry->same_section, &first->same_section);
		return 0;
	}
	return mtree_insert(&mm->sframe_sections, entry->sec.addr, entry,
			    GFP_KERNEL_ACCOUNT);
}

static void sframe_section_unlink(struct mm_struct *mm, struct sframe_entry *entry)
{
	struct sframe_entry *next;

	if (list_empty(&entry->same_section)) {
		sframe_tree_clear(&mm->sframe_sections, entry->sec.addr, entry->sec.addr);
		return;
	}
	next = list_next_entry(entry, same_section);
	list_del(&entry->same_section);
	/* Replacing a value in place allocates nothing. */
	if (mtree_load(&mm->sframe_sections, entry->sec.addr) == entry)
		mtree_store(&mm->sframe_sections, entry->sec.addr, next,
			    GFP_KERNEL | __GFP_NOFAIL);
}

static void sframe_entry_drop(struct mm_struct *mm, struct sframe_entry *entry)
{
	lockdep_assert_held(&mm->sframe_lock);

	sframe_tree_clear(&mm->sframe_mt, entry->text_start, entry->text_end - 1);
	sframe_section_unlink(mm, entry);
	mm->sframe_count--;
	call_srcu(&sframe_srcu, &entry->rcu, sframe_entry_free_srcu);
}

/* [start, end) is mapped without a hole, with @flags of the flags in @mask. */
static bool sframe_range_mapped(struct mm_struct *mm, unsigned long start,
				unsigned long end, vm_flags_t mask, vm_flags_t flags)
{
	VMA_ITERATOR(vmi, mm, start);
	struct vm_area_struct *vma;

	mmap_assert_locked(mm);

	for_each_vma_range(vmi, vma, end) {
		if (vma->vm_start > start || (vma->vm_flags & mask) != flags)
			return false;
		start = vma->vm_end;
		if (start >= end)
			return true;
	}
	return false;
}

static int sframe_insert(struct mm_struct *mm, struct sframe_entry *entry)
{
	int ret;

	lockdep_assert_held(&mm->sframe_lock);

	if (mm->sframe_count >= READ_ONCE(sysctl_max_sframe_count))
		return -ENOSPC;
	/* First where nobody searches: a failure then leaves nothing to take back. */
	ret = sframe_section_link(mm, entry);
	if (ret)
		return ret;
	ret = mtree_insert_range(&mm->sframe_mt, entry->text_start, entry->text_end - 1,
				 entry, GFP_KERNEL_ACCOUNT);
	if (ret) {
		sframe_section_unlink(mm, entry);
		return ret;
	}
	mm->sframe_count++;
	return 0;
}

static int sframe_replace(struct mm_struct *mm, struct sframe_entry *entry)
{
	struct sframe_entry *old;
	int ret;

	lockdep_assert_held(&mm->sframe_lock);

	old = mtree_load(&mm->sframe_mt, entry->text_start);
	if (!old || old->text_start != entry->text_start || old->text_end != entry->text_end)
		return -ENOENT;
	ret = sframe_section_link(mm, entry);
	if (ret)
		return ret;
	ret = mtree_store_range(&mm->sframe_mt, entry->text_start, entry->text_end - 1,
				entry, GFP_KERNEL_ACCOUNT);
	if (ret) {
		sframe_section_unlink(mm, entry);
		return ret;
	}
	sframe_section_unlink(mm, old);
	call_srcu(&sframe_srcu, &old->rcu, sframe_entry_free_srcu);
	return 0;
}

static bool sframe_bad_range(u64 start, u64 size)
{
	return start + size < start || start + size > TASK_SIZE_MAX;
}

static int sframe_setup_check(const struct sframe_setup *setup)
{
	if (setup->flags & ~SFRAME_SETUP_FLAGS)
		return -EINVAL;
	if (setup->func_base && !(setup->flags & SFRAME_FUNC_BASE))
		return -EINVAL;
	if (!setup->text_size || sframe_bad_range(setup->text_start, setup->text_size))
		return -EINVAL;
	if (sframe_bad_range(setup->sframe_start, setup->sframe_size))
		return -EINVAL;
	return 0;
}

/* Check the header that @setup names and fill @entry from it. */
static int sframe_entry_fill(struct sframe_entry *entry, const struct sframe_setup *setup)
{
	unsigned int options = 0;
	int status;

	if (setup->flags & SFRAME_GROWABLE)
		options |= SFRAME_PARSE_GROWABLE;
	if (setup->flags & SFRAME_FUNC_BASE)
		options |= SFRAME_PARSE_FUNC_BASE;
	status = sframe_section_parse(&entry->sec, setup->sframe_start, setup->sframe_size,
				      setup->func_base, options, NULL);
	if (status == SFRAME_UNREADABLE)
		return -EFAULT;
	if (status != SFRAME_OK || entry->sec.abi != SFRAME_ABI_AMD64_ENDIAN_LITTLE)
		return -EINVAL;
	/* Producers of version 2 disagree about what offsets count from otherwise. */
	if (entry->sec.version == SFRAME_VERSION_2 &&
	    !(entry->sec.flags & SFRAME_F_FDE_FUNC_START_PCREL))
		return -EINVAL;

	entry->text_start = setup->text_start;
	entry->text_end = setup->text_start + setup->text_size;
	entry->sframe_size = setup->sframe_size;
	entry->flags = setup->flags & ~SFRAME_REPLACE;
	return 0;
}

static int sframe_entry_publish(struct mm_struct *mm, struct sframe_entry *entry, bool replace)
{
	unsigned long sframe_end = entry->sec.addr + entry->sframe_size;

	mmap_assert_locked(mm);

	if (!sframe_range_mapped(mm, entry->sec.addr, sframe_end, VM_READ, VM_READ))
		return -EFAULT;
	if (!sframe_range_mapped(mm, entry->text_start, entry->text_end, VM_EXEC, VM_EXEC))
		return -EINVAL;

	guard(mutex)(&mm->sframe_lock);
	return replace ? sframe_replace(mm, entry) : sframe_insert(mm, entry);
}

/* Check @setup and put it into current's trees. */
static int sframe_add(const struct sframe_setup *setup)
{
	struct mm_struct *mm = current->mm;
	struct sframe_entry *entry;
	int ret;

	ret = sframe_setup_check(setup);
	if (ret)
		return ret;

	entry = kmem_cache_zalloc(sframe_cache, GFP_KERNEL_ACCOUNT);
	if (!entry)
		return -ENOMEM;
	ret = sframe_entry_fill(entry, setup);
	if (!ret)
		ret = mmap_read_lock_killable(mm);
	if (!ret) {
		ret = sframe_entry_publish(mm, entry, setup->flags & SFRAME_REPLACE);
		mmap_read_unlock(mm);
	}
	/* Nothing of a failed insertion was visible to a reader. */
	if (ret)
		kmem_cache_free(sframe_cache, entry);
	return ret;
}

static int sframe_copy_setup(struct sframe_setup *setup, const struct sframe_setup __user *user,
			     size_t size)
{
	BUILD_BUG_ON(sizeof(*setup) != SFRAME_SETUP_SIZE_VER1);

	if (in_compat_syscall() || size < SFRAME_SETUP_SIZE_VER0)
		return -EINVAL;
	if (size > PAGE_SIZE)
		return -E2BIG;
	return copy_struct_from_user(setup, sizeof(*setup), user, size);
}

SYSCALL_DEFINE2(sframe_register, const struct sframe_setup __user *, user, size_t, size)
{
	struct sframe_setup setup;
	int ret;

	ret = sframe_copy_setup(&setup, user, size);
	if (ret)
		return ret;
	return sframe_add(&setup);
}

/* With a text range just that one, else all ranges of the section. */
static int sframe_remove(const struct sframe_setup *setup)
{
	struct mm_struct *mm = current->mm;
	struct sframe_entry *entry;

	guard(mutex)(&mm->sframe_lock);

	if (setup->text_start || setup->text_size) {
		entry = mtree_load(&mm->sframe_mt, setup->text_start);
		if (!entry || entry->text_start != setup->text_start ||
		    entry->text_end - entry->text_start != setup->text_size ||
		    entry->sec.addr != setup->sframe_start)
			return -ENOENT;
		sframe_entry_drop(mm, entry);
		return 0;
	}

	entry = mtree_load(&mm->sframe_sections, setup->sframe_start);
	if (!entry)
		return -ENOENT;
	do {
		sframe_entry_drop(mm, entry);
		cond_resched();
		entry = mtree_load(&mm->sframe_sections, setup->sframe_start);
	} while (entry);
	return 0;
}

SYSCALL_DEFINE2(sframe_unregister, const struct sframe_setup __user *, user, size_t, size)
{
	struct sframe_setup setup;
	int ret;

	ret = sframe_copy_setup(&setup, user, size);
	if (ret)
		return ret;
	if (setup.flags || setup.func_base)
		return -EINVAL;
	return sframe_remove(&setup);
}

/**
 * __sframe_munmap() - text goes away, by munmap(), mremap() or MAP_FIXED
 * @mm: current's
 * @start: of the unmapped range
 * @end: of the unmapped range
 *
 * Drops every registration that the range touches.
 */
void __sframe_munmap(struct mm_struct *mm, unsigned long start, unsigned long end)
{
	struct sframe_entry *entry;
	unsigned long index = start;

	mmap_assert_write_locked(mm);

	/* Nothing can be added meanwhile: most unmappings need not wait for the lock. */
	if (start >= end || !mt_find(&mm->sframe_mt, &index, end - 1))
		return;

	guard(mutex)(&mm->sframe_lock);

	index = start;
	while (index < end && (entry = mt_find(&mm->sframe_mt, &index, end - 1))) {
		index = entry->text_end;
		sframe_entry_drop(mm, entry);
	}
}

/* Whether the child has the text of @entry, and with its bytes. */
static bool sframe_text_inherited(struct mm_struct *mm, const struct sframe_entry *entry)
{
	return sframe_range_mapped(mm, entry->text_start, entry->text_end, VM_WIPEONFORK, 0);
}

static int sframe_entry_dup(struct mm_struct *mm, const struct sframe_entry *entry)
{
	struct sframe_entry *copy;
	int ret;

	copy = kmem_cache_alloc(sframe_cache, GFP_KERNEL_ACCOUNT);
	if (!copy)
		return -ENOMEM;
	*copy = *entry;
	ret = sframe_insert(mm, copy);
	if (ret)
		kmem_cache_free(sframe_cache, copy);
	return ret;
}

/**
 * sframe_mm_dup() - copy the registrations to a child
 * @mm: the child's, not visible yet, its mappings complete
 * @oldmm: current's; the mmap_lock of both is held for writing
 *
 * Text that the child does not inherit (MADV_DONTFORK, MADV_WIPEONFORK) is
 * left out.
 *
 * Return: 0, -ENOMEM, or -EINTR on a fatal signal. On an error the caller
 * tears @mm down.
 */
int sframe_mm_dup(struct mm_struct *mm, struct mm_struct *oldmm)
{
	struct sframe_entry *entry;
	unsigned long index = 0;
	int ret = 0;

	if (likely(mtree_empty(&oldmm->sframe_mt)))
		return 0;

	/* Threads of the parent may unregister without mmap_lock. */
	guard(mutex)(&oldmm->sframe_lock);
	mutex_lock_nested(&mm->sframe_lock, SINGLE_DEPTH_NESTING);
	mt_for_each(&oldmm->sframe_mt, entry, index, ULONG_MAX) {
		if (fatal_signal_pending(current))
			ret = -EINTR;
		else if (sframe_text_inherited(mm, entry))
			ret = sframe_entry_dup(mm, entry);
		if (ret)
			break;
		cond_resched();
	}
	mutex_unlock(&mm->sframe_lock);
	/* The bound may have been lowered since: then the child has fewer. */
	return ret == -ENOSPC ? 0 : ret;
}

/* The last user of @mm is gone: nobody reads any more. */
void sframe_mm_exit(struct mm_struct *mm)
{
	struct sframe_entry *entry;
	unsigned long index = 0;

	/* An emptied tree may still own nodes. */
	if (likely(mtree_empty(&mm->sframe_mt) && mtree_empty(&mm->sframe_sections)))
		return;

	mt_for_each(&mm->sframe_mt, entry, index, ULONG_MAX) {
		kmem_cache_free(sframe_cache, entry);
		cond_resched();
	}
	/*
	 * Free the nodes here and now, as exit_mmap() does with those of VMAs.
	 * Left to RCU, mt_free_walk() takes the metadata in the last slot of a
	 * maple_range_64 node for a child.
	 */
	mt_clear_in_rcu(&mm->sframe_mt);
	mtree_destroy(&mm->sframe_mt);
	mtree_destroy(&mm->sframe_sections);
	mm->sframe_count = 0;
}

/**
 * sframe_exec() - register what an ELF image ships, for one executable segment
 * @sframe_start: address of its section
 * @sframe_size: size of the section
 * @text_start: address of the segment
 * @text_size: size of the segment
 *
 * Never fails an exec: an image without a usable section has none.
 */
void sframe_exec(unsigned long sframe_start, unsigned long sframe_size,
		 unsigned long text_start, unsigned long text_size)
{
	const struct sframe_setup setup = {
		.sframe_start	= sframe_start,
		.sframe_size	= sframe_size,
		.text_start	= text_start,
		.text_size	= text_size,
	};

	sframe_add(&setup);
}

/* A register of the topmost frame, by DWARF number; SP and FP are in the frame. */
static int sframe_user_reg(unsigned int regno, u64 *value)
{
	static const u8 offsets[] = {
		offsetof(struct pt_regs, ax), offsetof(struct pt_regs, dx),
		offsetof(struct pt_regs, cx), offsetof(struct pt_regs, bx),
		offsetof(struct pt_regs, si), offsetof(struct pt_regs, di),
		offsetof(struct pt_regs, bp), offsetof(struct pt_regs, sp),
		offsetof(struct pt_regs, r8), offsetof(struct pt_regs, r9),
		offsetof(struct pt_regs, r10), offsetof(struct pt_regs, r11),
		offsetof(struct pt_regs, r12), offsetof(struct pt_regs, r13),
		offsetof(struct pt_regs, r14), offsetof(struct pt_regs, r15),
	};

	if (regno >= ARRAY_SIZE(offsets))
		return -EINVAL;
	*value = regs_get_register(task_pt_regs(current), offsets[regno]);
	return 0;
}

static bool sframe_find(struct mm_struct *mm, unsigned long pc, struct sframe_section *sec)
{
	struct sframe_entry *entry;

	guard(srcu)(&sframe_srcu);
	entry = mtree_load(&mm->sframe_mt, pc);
	if (!entry)
		return false;
	*sec = entry->sec;
	return true;
}

/**
 * sframe_next() - look at the registrations of an mm in address order
 * @mm: whose users the caller holds
 * @index: address to begin with; set to the end of the range found
 * @info: filled
 *
 * Return: whether there was one.
 */
bool sframe_next(struct mm_struct *mm, unsigned long *index, struct sframe_info *info)
{
	struct sframe_entry *entry;

	guard(srcu)(&sframe_srcu);
	entry = mt_find(&mm->sframe_mt, index, ULONG_MAX);
	if (!entry)
		return false;
	*info = (struct sframe_info) {
		.text_start = entry->text_start,
		.text_end = entry->text_end,
		.sframe_start = entry->sec.addr,
		.sframe_size = entry->sframe_size,
		.flags = entry->flags,
		.version = entry->sec.version,
	};
	*index = entry->text_end;
	return true;
}

/**
 * unwind_user_next_sframe() - go to the caller's frame by SFrame
 * @state: replaced by the caller's on success
 *
 * Return: 0; -ENOENT if the frame is outermost; -EAGAIN if another method may
 * be tried; -EINVAL if none may, since it would find a wrong caller.
 */
int unwind_user_next_sframe(struct unwind_user_state *state)
{
	struct sframe_frame frame = {
		.pc = state->ip,
		.sp = state->sp,
		.fp = state->fp,
		.sigctx = state->sigctx,
		.exact = state->topmost || state->exact,
		.topmost = state->topmost,
	};
	struct sframe_section sec;

	if (state->ws != sizeof(u64) || mtree_empty(&current->mm->sframe_mt))
		return -EAGAIN;
	if (fatal_signal_pending(current))
		return -EINVAL;
	if (!sframe_find(current->mm, sframe_frame_lookup_pc(&frame), &sec))
		return -EAGAIN;
	/* A step may take some thousands of reads. */
	cond_resched();

	switch (sframe_step(&sec, &frame, NULL)) {
	case SFRAME_OK:
		break;
	case SFRAME_OUTERMOST:
		return -ENOENT;
	case SFRAME_UNSUPPORTED_REG:
	case SFRAME_NO_PROGRESS:
		return -EINVAL;
	default:
		return -EAGAIN;
	}
	/* No caller: the stack is not what the section was made for. */
	if (frame.pc >= TASK_SIZE_MAX)
		return -EINVAL;

	state->ip = frame.pc;
	state->sp = frame.sp;
	state->fp = frame.fp;
	state->sigctx = frame.sigctx;
	state->exact = frame.exact;
	state->topmost = false;
	return 0;
}

static ssize_t register_nr_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", __NR_sframe_register);
}

static ssize_t unregister_nr_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", __NR_sframe_unregister);
}

static ssize_t features_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%#llx\n", SFRAME_SETUP_FLAGS);
}

static struct kobj_attribute register_nr_attr = __ATTR_RO(register_nr);
static struct kobj_attribute unregister_nr_attr = __ATTR_RO(unregister_nr);
static struct kobj_attribute features_attr = __ATTR_RO(features);

static struct attribute *sframe_attrs[] = {
	&register_nr_attr.attr,
	&unregister_nr_attr.attr,
	&features_attr.attr,
	NULL,
};

static const struct attribute_group sframe_group = {
	.name = "sframe",
	.attrs = sframe_attrs,
};

static const struct ctl_table sframe_sysctls[] = {
	{
		.procname	= "max_sframe_count",
		.data		= &sysctl_max_sframe_count,
		.maxlen		= sizeof(sysctl_max_sframe_count),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= SYSCTL_ZERO,
		.extra2		= SYSCTL_INT_MAX,
	},
};

static int __init sframe_init(void)
{
	sframe_cache = KMEM_CACHE(sframe_entry, SLAB_PANIC | SLAB_ACCOUNT);
	register_sysctl_init("vm", sframe_sysctls);
	return sysfs_create_group(kernel_kobj, &sframe_group);
}
subsys_initcall(sframe_init);
