import { printableIo } from '../../src/kas/cli/cli.ts'
import { health } from '../../src/kas/modules/views/cli/health.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { abortable } from '../../src/lib/signals.ts'

/**
 * Runs `kas health` as the command does, in this process.
 *
 * @param args - the command's arguments
 * @returns duration. ms
 * @throws Error if the answer is not of a live view, or its exit code is none of `codes`; the signal's reason
 */
export async function askHealth(
  { kubeconfig, args, codes }: { kubeconfig: string; args: readonly string[]; codes: readonly number[] },
  signal: AbortSignal,
): Promise<number> {
  const began = performance.now()
  const said: string[] = []
  const complaints: string[] = []
  const io = {
    env: {},
    stdout: { write: (text: string) => said.push(text) },
    stderr: { write: (text: string) => complaints.push(text) },
    stdin: { [Symbol.asyncIterator]: () => ({ next: async () => ({ done: true as const, value: undefined }) }) },
  }
  const words = [...args, '--kubeconfig', kubeconfig, '-o', 'json']
  const asked = health.run(words, { io: printableIo(io), clock: systemClock, random: Math.random, groups: [] })
  const code = await abortable(asked, signal)
  const { state } = JSON.parse(said.join('')) as { state: string }
  if (state !== 'live') throw new Error(`kas health: ${state} ${complaints.join('')}`)
  if (!codes.includes(code)) throw new Error(`kas health: exit code ${code}, expected ${codes.join(' or ')}`)
  return performance.now() - began
}
