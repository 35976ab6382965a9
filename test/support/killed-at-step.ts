import fs, { type FileHandle } from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'

/**
 * Loaded before a program (`--import`): kills it before its `KILL_AT`th change of a file, or while that is half done.
 * Without the variable it prints the number of changes on stderr: `steps 12`.
 */

const target = Number(process.env.KILL_AT ?? 0)
let steps = 0

function step(): void {
  if (++steps === target) process.kill(process.pid, 'SIGKILL')
}

const { open, rename, rm, mkdir } = fs

fs.open = async (path, flags, mode) => {
  if (!String(flags).startsWith('w')) return await open(path, flags, mode)
  step()
  return halfWritten(await open(path, flags, mode))
}
fs.rename = async (from, to) => {
  step()
  await rename(from, to)
}
fs.rm = async (path, options) => {
  step()
  await rm(path, options)
}
fs.mkdir = (async (path: string, options: object) => {
  step()
  return await mkdir(path, options)
}) as typeof mkdir
syncBuiltinESMExports()

function halfWritten(handle: FileHandle): FileHandle {
  const { writeFile, sync } = handle
  handle.writeFile = async (text) => {
    const half = Math.floor(String(text).length / 2)
    await writeFile.call(handle, String(text).slice(0, half))
    step()
    await writeFile.call(handle, String(text).slice(half))
  }
  handle.sync = async () => {
    step()
    await sync.call(handle)
  }
  return handle
}

process.on('exit', () => process.stderr.write(`steps ${steps}\n`))
