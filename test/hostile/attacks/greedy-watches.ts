import { once } from 'node:events'
import type { TLSSocket } from 'node:tls'
import { delay } from '../../../src/lib/signals.ts'
import type { Attack } from '../attack.ts'
import { dial, type Stage, sharedOf, textOf } from '../stage.ts'

interface Size {
  readonly watches: number
  /** how long she goes on. ms */
  readonly lastsMs: number
}

const dialsAtOnce = 20
/** She does not wait for as long as she is told to. ms */
const againMs = 1000

/** One watch, asked for again whenever it is refused, and on another connection when it ends. */
class GreedyWatch {
  readonly #stage: Stage
  readonly #said: (answer: string) => void
  #socket: TLSSocket | undefined
  #isOver = false

  constructor(stage: Stage, said: (answer: string) => void) {
    this.#stage = stage
    this.#said = said
  }

  /** Resolves once its request is on the way. */
  async open(signal: AbortSignal): Promise<void> {
    const { userCredential, namespace } = sharedOf(this.#stage)
    const socket = dial(this.#stage.ca, this.#stage.entry.kubernetes)
    this.#socket = socket
    const path = `/api/v1/namespaces/${namespace}/configmaps?watch=1`
    const head = [`GET ${path} HTTP/1.1`, 'Host: kas', `Authorization: Bearer ${userCredential}`, '', ''].join('\r\n')
    const ask = () => void (socket.writable && socket.write(head))
    socket.on('data', (chunk) => {
      const text = String(chunk)
      if (!text.startsWith('HTTP/1.1 ') || text.startsWith('HTTP/1.1 200 ')) return
      this.#said(textOf(text))
      setTimeout(ask, againMs)
    })
    socket.once('close', () => void this.#again(signal))
    await once(socket, 'secureConnect', { signal })
    ask()
  }

  end(): void {
    this.#isOver = true
    this.#socket?.destroy()
  }

  async #again(signal: AbortSignal): Promise<void> {
    await delay(againMs)
    if (!this.#isOver && !signal.aborted) await this.open(signal).catch(() => undefined)
  }
}

export const greedyWatches: Attack<Size> = {
  name: 'greedy-watches',
  what: 'one user with more watches of the good agent than it has tunnels, opened again after each refusal',
  refusal: /^429 .*You hold \d+ of the \d+ tunnels/,
  cluster: true,
  cheap: { watches: 700, lastsMs: 2000 },
  full: { watches: 1600, lastsMs: 30_000 },
  async play(stage, { watches, lastsMs }, signal) {
    const all: GreedyWatch[] = []
    let refusal = ''
    const end = async () => {
      for (const watch of all) watch.end()
    }
    const said = (answer: string) => {
      if (answer.includes('You hold')) refusal ||= answer
    }
    try {
      while (all.length < watches) {
        const some = Array.from({ length: dialsAtOnce }, () => new GreedyWatch(stage, said))
        all.push(...some)
        await Promise.all(some.map((watch) => watch.open(signal)))
      }
      for (const until = performance.now() + lastsMs; performance.now() < until || refusal === ''; )
        await delay(againMs / 4, signal)
    } catch (error) {
      await end()
      throw error
    }
    return { refusal, end }
  },
}
