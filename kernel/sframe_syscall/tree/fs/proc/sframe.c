// SPDX-License-Identifier: GPL-2.0-only
/*
 * /proc/PID/sframe: the registered SFrame sections, a line per text range.
 *
 *	start-end section size version flags
 *
 * Whoever may read maps may read this: it tells no more about the layout.
 */
#include <linux/fs.h>
#include <linux/proc_fs.h>
#include <linux/ptrace.h>
#include <linux/sched/mm.h>
#include <linux/seq_file.h>
#include <linux/sframe.h>
#include "internal.h"

struct proc_sframe {
	struct mm_struct *mm;
	bool held;		/* between start and stop */
	struct sframe_info info;
};

/* The position is an address, so that a reader goes on where it stopped. */
static void *proc_sframe_find(struct proc_sframe *priv, loff_t *pos)
{
	unsigned long index = *pos;

	if (!sframe_next(priv->mm, &index, &priv->info))
		return NULL;
	*pos = priv->info.text_start;
	return &priv->info;
}

static void *proc_sframe_start(struct seq_file *seq, loff_t *pos)
{
	struct proc_sframe *priv = seq->private;

	if (!priv->mm || !mmget_not_zero(priv->mm))
		return NULL;
	priv->held = true;
	return proc_sframe_find(priv, pos);
}

static void *proc_sframe_next(struct seq_file *seq, void *v, loff_t *pos)
{
	struct proc_sframe *priv = seq->private;

	*pos = priv->info.text_end;
	return proc_sframe_find(priv, pos);
}

static void proc_sframe_stop(struct seq_file *seq, void *v)
{
	struct proc_sframe *priv = seq->private;

	if (priv->held)
		mmput(priv->mm);
	priv->held = false;
}

static int proc_sframe_show(struct seq_file *seq, void *v)
{
	const struct sframe_info *info = v;

	seq_printf(seq, "%lx-%lx %lx %lu %u %#lx\n", info->text_start, info->text_end,
		   info->sframe_start, info->sframe_size, info->version, info->flags);
	return 0;
}

static const struct seq_operations proc_sframe_seq_ops = {
	.start	= proc_sframe_start,
	.next	= proc_sframe_next,
	.stop	= proc_sframe_stop,
	.show	= proc_sframe_show,
};

static int proc_sframe_open(struct inode *inode, struct file *file)
{
	struct proc_sframe *priv = __seq_open_private(file, &proc_sframe_seq_ops, sizeof(*priv));
	struct mm_struct *mm;

	if (!priv)
		return -ENOMEM;
	mm = proc_mem_open(inode, PTRACE_MODE_READ);
	if (IS_ERR(mm)) {
		seq_release_private(inode, file);
		return PTR_ERR(mm);
	}
	priv->mm = mm;
	return 0;
}

static int proc_sframe_release(struct inode *inode, struct file *file)
{
	struct seq_file *seq = file->private_data;
	struct proc_sframe *priv = seq->private;

	if (priv->mm)
		mmdrop(priv->mm);
	return seq_release_private(inode, file);
}

const struct file_operations proc_pid_sframe_operations = {
	.open		= proc_sframe_open,
	.read		= seq_read,
	.llseek		= seq_lseek,
	.release	= proc_sframe_release,
};
