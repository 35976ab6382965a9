import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'

/**
 * Asks a program over IPC; it says one thing at a time.
 *
 * @returns what it says next
 * @throws Error if it ends before
 */
export async function askProgram<Answer>(child: ChildProcess, question: object): Promise<Answer> {
  const answer = hear<Answer>(child)
  child.send(question)
  return await answer
}

/** What a program says next over IPC. @throws Error if it ends before */
export async function hear<Answer>(child: ChildProcess): Promise<Answer> {
  const over = new AbortController()
  try {
    const ended = once(child, 'exit', over).then(([code, signal]): never => {
      throw new Error(`a program of the bench ended with ${code ?? signal}`)
    })
    const [said] = await Promise.race([once(child, 'message', over), ended])
    return said as Answer
  } finally {
    over.abort()
  }
}
