import { printable } from '../../lib/printable.ts'
import { type CliIo, UsageError } from './command.ts'

/** Bound of an answer. Characters */
const maxAnswer = 100

/**
 * Asks a question on the terminal.
 *
 * @param question - lines; the last one ends with the question
 * @returns true: the answer is `y` or `yes`
 * @throws UsageError: there is no terminal, so that nobody can answer
 */
export async function confirmed(
  question: string,
  { stdin, stderr }: Pick<CliIo, 'stdin' | 'stderr'>,
): Promise<boolean> {
  if (!stdin.isTTY) throw new UsageError('there is no terminal to ask on: --yes goes on without a question')
  stderr.write(`${question.split('\n').map(printable).join('\n')} [y/N] `)
  let answer = ''
  for await (const chunk of stdin) {
    answer += String(chunk)
    if (answer.includes('\n') || answer.length > maxAnswer) break
  }
  return /^y(?:es)?$/i.test(answer.trim())
}
