import { once } from 'node:events'
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import { delay } from '../../src/lib/signals.ts'
import type { TornDown } from './processes.ts'

export interface ResumedLinesOptions {
  /** of a body without end */
  readonly url: string
  /** the header */
  readonly authorization: string
  /** Whether somebody has closed the connection of this client who may, if there was no answer. */
  readonly isExcused: (clientPort: number | undefined) => boolean
}

/** between two tries. ms */
const retryMs = 50

/** A reader of a body without end, who asks again when it was cut. */
export class ResumedLines {
  /** each once, in order */
  readonly lines: string[] = []
  /** bodies that were begun */
  begun = 0
  /** bodies that were cut so that the reader could see it */
  cut = 0
  /** bodies that ended as if they were whole, and answers that were none */
  readonly failures: string[] = []
  readonly #options: ResumedLinesOptions
  readonly #stop = new AbortController()

  private constructor(options: ResumedLinesOptions) {
    this.#options = options
  }

  static start(t: TornDown, options: ResumedLinesOptions): ResumedLines {
    const reader = new ResumedLines(options)
    const running = reader.#follow()
    t.teardown(() => {
      reader.#stop.abort()
      return running
    })
    return reader
  }

  async #follow(): Promise<void> {
    const { signal } = this.#stop
    while (!signal.aborted) {
      const { url, authorization } = this.#options
      const sent = request(url, { agent: false, headers: { authorization }, signal })
      await this.#read(sent).catch((error: Error) => {
        if (!signal.aborted) this.failures.push(error.message)
      })
      sent.destroy()
      if (!signal.aborted) await delay(retryMs)
    }
  }

  async #read(sent: ClientRequest): Promise<void> {
    let port: number | undefined
    sent.once('socket', (socket) => socket.once('connect', () => (port = socket.localPort)))
    const answered = once(sent, 'response') as Promise<[IncomingMessage]>
    sent.end()
    const [answer] = await answered.catch((error: Error) => {
      if (this.#options.isExcused(port)) return []
      throw error
    })
    if (!answer) return
    if (answer.statusCode !== 200) throw new Error(`${answer.statusCode}`)
    this.begun++
    let rest = ''
    try {
      for await (const chunk of answer.setEncoding('utf8')) {
        const lines = (rest + chunk).split('\n')
        rest = lines.pop() ?? ''
        this.lines.push(...lines)
      }
    } catch {
      this.cut++
      return
    }
    throw new Error('it ended as if it were whole')
  }
}
