import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Test } from 'tap'
import type { InstanceId } from '../../src/membership/membership.ts'

export interface WholeProcess {
  readonly child: ChildProcess
  readonly instance: InstanceId
  /** address of its gossip */
  readonly address: string
  readonly agentsPort: number
}

/** Starts a whole replica that can be killed and frozen; it dials the listed ones. */
export async function startWholeProcess(t: Test, name: string, ...listed: string[]): Promise<WholeProcess> {
  const program = join(import.meta.dirname, 'whole-program.ts')
  const { NODE_OPTIONS: _, ...env } = process.env // tap's hooks are for tests
  const child = spawn(process.execPath, [program, name, ...listed], { stdio: ['ignore', 'pipe', 'inherit'], env })
  const exited = once(child, 'exit')
  t.teardown(async () => {
    child.kill('SIGKILL')
    await exited
  })
  const early = exited.then(([code, signal]) => {
    throw new Error(`${name} ended with ${signal ?? code} before it served`)
  })
  const [line] = (await Promise.race([once(createInterface(child.stdout), 'line'), early])) as [string]
  return { child, ...(JSON.parse(line) as Omit<WholeProcess, 'child'>) }
}
