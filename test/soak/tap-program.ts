import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Findings, Stage } from './scene.ts'

/** of all attacks of hostile at full size, some two minutes each, and half as much again */
const timeoutMs = 5_400_000

/**
 * A scene that is a program of its own beside this one: it tells in TAP what holds, and figures as comments.
 *
 * @param options - of the scene, which finds them as JSON in `KAS_SOAK_OPTIONS`
 */
export async function tapProgram(
  name: string,
  { say, signal }: Pick<Stage, 'say' | 'signal'>,
  options: object,
): Promise<Findings> {
  const program = join(import.meta.dirname, `${name}.ts`)
  const env = {
    ...process.env,
    TAP: '1',
    TAP_TIMEOUT: String(timeoutMs / 1000),
    KAS_SOAK_OPTIONS: JSON.stringify(options),
  }
  const child = spawn(process.execPath, [program], { env, stdio: ['ignore', 'pipe', 'inherit'] })
  const end = () => child.kill('SIGTERM')
  signal.addEventListener('abort', end, { once: true })
  const exited = once(child, 'exit')
  const failures: string[] = []
  for await (const line of createInterface(child.stdout)) {
    const [, not, text = '', skipped] = /^ +(not )?ok \d+ - (.*?)( # SKIP.*)?$/.exec(line) ?? []
    if (text !== '') say(`${not ? 'FAILED' : 'ok'}  ${text}${skipped ?? ''}`)
    const [, comment] = /^ +# (?!Subtest: |time=)(.*)$/.exec(line) ?? []
    if (comment !== undefined) say(comment)
    if (not || skipped) failures.push(`${text}${skipped ?? ''}`)
  }
  const [code] = await exited
  signal.removeEventListener('abort', end)
  signal.throwIfAborted()
  if (code !== 0 && failures.length === 0) failures.push(`it ended with ${code}`)
  return { figures: [], failures }
}
