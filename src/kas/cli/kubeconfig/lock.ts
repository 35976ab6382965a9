import { watch } from 'node:fs'
import { mkdir, open, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Clock } from '../../../lib/clock.ts'

/** kubectl has a file for some milliseconds. */
const lockWaitMs = 2000

/**
 * Keeps kubectl, and other kas, from writing these files, by `<file>.lock` beside each as kubectl does.
 *
 * @returns gives them back
 * @throws Error that says what to do, if another has one for too long
 */
export async function lockFiles(files: readonly string[], clock: Clock): Promise<() => Promise<void>> {
  const locked: string[] = []
  const unlock = async () => {
    for (const file of locked.splice(0).toReversed()) await rm(file, { force: true })
  }
  try {
    for (const file of [...files].sort()) locked.push(await lock(file, clock)) // in one order: nobody waits in a circle
  } catch (error) {
    await unlock()
    throw error
  }
  return unlock
}

async function lock(file: string, clock: Clock): Promise<string> {
  const lockFile = `${file}.lock`
  await mkdir(dirname(file), { recursive: true })
  if (await tryCreate(lockFile)) return lockFile
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
      if (await tryCreate(lockFile)) return lockFile
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

async function tryCreate(lockFile: string): Promise<boolean> {
  try {
    await (await open(lockFile, 'wx', 0o600)).close()
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}
