import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Test } from 'tap'
import type { InstanceId } from '../../src/membership/membership.ts'

export interface ReplicaProcess {
  readonly child: ChildProcess
  readonly exited: Promise<unknown>
  readonly instance: InstanceId
  readonly address: string
}

/** Starts a replica that can be killed and frozen; it holds one connection of agent 42, and dials no other replica. */
export async function startProcess(t: Test, name: string, port = 0): Promise<ReplicaProcess> {
  const program = join(import.meta.dirname, 'replica-program.ts')
  const { NODE_OPTIONS: _, ...env } = process.env // tap's hooks are for tests
  const child = spawn(process.execPath, [program, name, String(port)], { stdio: ['ignore', 'pipe', 'inherit'], env })
  const exited = once(child, 'exit')
  t.teardown(async () => {
    child.kill('SIGKILL')
    await exited
  })
  const [line] = (await once(createInterface(child.stdout), 'line')) as [string]
  const told = JSON.parse(line) as { port: number; instance: InstanceId }
  return { child, exited, instance: told.instance, address: `127.0.0.1:${told.port}` }
}
