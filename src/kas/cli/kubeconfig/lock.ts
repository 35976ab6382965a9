import { closeSync, openSync, rmSync, watch } from 'node:fs'
import { mkdir, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Clock } from '../../../lib/clock.ts'

/** Bound of the wait: kubectl locks a file for some milliseconds. ms */
const lockWaitMs = 2000

/**
 * Keeps kubectl, and other runs of kas, from writing these files. It uses `<file>.lock` beside each of them, as kubectl
 * does.
 *
 * @returns function that unlocks them
 * @throws Error that says what to do, if another program locks a file for too long
 */
export async function lockFiles(files: readonly string[], clock: Clock): Promise<() => Promise<void>> {
  const locked: string[] = []
  const listenNoMore = onEnd(() => {
    for (const file of locked) rmSync(file, { force: true })
  })
  const unlock = async () => {
    for (const file of locked.toReversed()) await rm(file, { force: true })
    listenNoMore()
  }
  try {
    // a common order prevents deadlocks
    for (const file of [...files].sort()) await lock(file, { clock, locked })
  } catch (error) {
    await unlock()
    throw error
  }
  return unlock
}

/** Signals by which a terminal, or a system that stops, ends a program. */
const endings = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/**
 * Calls `clean` before such a signal ends the program.
 *
 * @returns function that removes the listeners
 */
function onEnd(clean: () => void): () => void {
  const listener = (signal: NodeJS.Signals) => {
    clean()
    stop()
    process.kill(process.pid, signal)
  }
  const stop = () => {
    for (const signal of endings) process.off(signal, listener)
  }
  for (const signal of endings) process.on(signal, listener)
  return stop
}

interface Locking {
  readonly clock: Clock
  /** lock files that this program has created */
  readonly locked: string[]
}

async function lock(file: string, { clock, locked }: Locking): Promise<void> {
  const lockFile = `${file}.lock`
  await mkdir(dirname(file), { recursive: true })
  const take = () => tryCreate(lockFile) && locked.push(lockFile) > 0 // synchronous, so that no signal comes between
  if (take()) return
  let isOver = false
  let wake: () => void = () => undefined
  const changed = () => wake()
  const watcher = watch(dirname(file), changed)
  watcher.on('error', changed)
  const cancel = clock.after(lockWaitMs, () => {
    isOver = true
    changed()
  })
  try {
    for (;;) {
      const next = new Promise<void>((resolve) => {
        wake = resolve
      })
      if (take()) return
      if (isOver) break
      await next
    }
  } finally {
    cancel()
    watcher.close()
  }
  throw new Error(
    `${lockFile} is there: somebody writes ${file}. If nobody does, it was left behind: rm ${lockFile}. Nothing was changed`,
  )
}

function tryCreate(lockFile: string): boolean {
  try {
    closeSync(openSync(lockFile, 'wx', 0o600))
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}
