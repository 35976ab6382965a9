import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'

/**
 * Sends a question to a program over IPC; each program sends one answer at a time.
 *
 * @returns its next message
 * @throws Error if it ends before
 */
export async function askProgram<Answer>(child: ChildProcess, question: object): Promise<Answer> {
  const answer = hear<Answer>(child)
  child.send(question)
  return await answer
}

/** Resolves with a program's next message over IPC. @throws Error if it ends before */
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
