import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Findings, Stage } from './scene.ts'
import { attackNames } from './soak-options.ts'

/** time of one attack of hostile at full size on a slow machine; two minutes on a usual one. ms */
const attackMs = 240_000
/** limit of the longest program: all attacks of hostile. ms */
const timeoutMs = attackNames.length * attackMs

/**
 * Runs a scene that is a program of its own: it prints assertions as TAP, and figures as comments.
 *
 * @param options - of the scene, which reads them as JSON in `KAS_SOAK_OPTIONS`
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
  const { told, failures } = await readTap(createInterface(child.stdout), say)
  const [code] = await exited
  signal.removeEventListener('abort', end)
  signal.throwIfAborted()
  if (failures.length > 0) return { figures: [], failures }
  if (code !== 0) failures.push(`it ended with ${code}`)
  else if (told === 0) failures.push('nothing was measured')
  return { figures: [], failures }
}

/** Prints a program's TAP. @returns number of assertions, and the failed ones */
export async function readTap(
  lines: AsyncIterable<string>,
  say: (text: string) => void,
): Promise<{ told: number; failures: string[] }> {
  const failures: string[] = []
  let told = 0
  for await (const line of lines) {
    // a test that is skipped as a whole begins at the left
    const [, leftOut] = /^ok \d+ - (.* # SKIP.*)$/.exec(line) ?? []
    if (leftOut !== undefined) say(`left out  ${leftOut}`)
    const [, not, text = '', skipped] = /^ +(not )?ok \d+ - (.*?)( # SKIP.*)?$/.exec(line) ?? []
    if (text !== '') {
      told++
      say(`${not ? 'FAILED' : 'ok'}  ${text}${skipped ?? ''}`)
    }
    const [, comment] = /^ +# (?!Subtest: |time=)(.*)$/.exec(line) ?? []
    if (comment !== undefined) say(comment)
    if (not || skipped) failures.push(`${text}${skipped ?? ''}`)
  }
  return { told, failures }
}
