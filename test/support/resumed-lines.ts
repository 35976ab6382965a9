import { once } from 'node:events'
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import { delay } from '../../src/lib/signals.ts'
import type { TornDown } from './processes.ts'

export interface ResumedLinesOptions {
  /** URL of a body without end */
  readonly url: string
  /** the Authorization header */
  readonly authorization: string
  /** returns true if another side may have closed this client's connection, when there was no answer */
  readonly isExcused: (clientPort: number | undefined) => boolean
}

/** pause between two tries. ms */
const retryMs = 50

/** A reader of a body without end, who asks again after each cut. */
export class ResumedLines {
  /** each line once, in order */
  readonly lines: string[] = []
  /** number of begun bodies */
  begun = 0
  /** bodies that were cut visibly */
  cut = 0
  /** bodies that ended as if they were complete, and wrong answers */
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
