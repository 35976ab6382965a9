import { type ChildProcess, fork } from 'node:child_process'
import { join } from 'node:path'

/** Starts a program of this folder, as a process of its own; messages in both directions may contain any value. */
export function forkProgram(file: string, args: readonly string[] = []): ChildProcess {
  const { NODE_OPTIONS: _, ...env } = process.env // tap's hooks are for tests
  return fork(join(import.meta.dirname, file), args, { env, execArgv: [], serialization: 'advanced' })
}
