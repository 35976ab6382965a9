/** Viewers that follow views through kas, over WebSocket. Their settings are the argument, in JSON. */
import { WebSocket } from 'ws'
import { type Update, viewsProtocol } from '../../src/proto/views-json.ts'
import { machineTime } from '../support/machine-time.ts'
import type { Change, First, ViewersQuestion, ViewersSettings } from './questions.ts'

interface Said {
  readonly type: 'update' | 'error'
  readonly update?: Update
  readonly text?: string
}

const { url, headers } = JSON.parse(process.argv[2] ?? '') as ViewersSettings
const seen: Change[] = []
let last: Viewer | undefined

class Viewer {
  readonly #socket: WebSocket
  #state = ''
  #onUpdate: ((update: Update, bytes: number, at: number) => void) | undefined

  constructor({ query, user }: Extract<ViewersQuestion, { kind: 'open' }>) {
    this.#socket = new WebSocket(url, [viewsProtocol], { headers: { ...headers[user] } })
    this.#socket.on('open', () => this.#socket.send(JSON.stringify({ type: 'open', id: 1, agent: '42', ...query })))
    this.#socket.on('message', (text: Buffer) => this.#said(text))
    this.#socket.on('error', fail)
    this.#socket.on('close', () => fail(new Error('a viewer was closed')))
  }

  /** Resolves with the first live update for which `isIt` returns an order. */
  async until(isIt: (update: Update) => readonly string[] | undefined): Promise<Omit<First, 'ms'>> {
    const found = Promise.withResolvers<Omit<First, 'ms'>>()
    this.#onUpdate = (update, bytes, at) => {
      const order = this.#state === 'live' ? isIt(update) : undefined
      if (order) found.resolve({ at, bytes, order })
    }
    return await found.promise
  }

  page(node: string, limit: number): void {
    this.#socket.send(JSON.stringify({ type: 'page', id: 1, node, limit }))
  }

  #said(text: Buffer): void {
    const at = machineTime()
    const { update, type, text: why } = JSON.parse(String(text)) as Said
    if (!update) fail(new Error(`${type}: ${why}`))
    this.#state = update.state?.is ?? this.#state
    for (const { u, f = [] } of update.rows ?? []) {
      const restarts = f.map((fact) => /^(\d+) restart/.exec(fact)?.[1]).find(Boolean)
      if (restarts) seen.push({ uid: u, restarts: Number(restarts), at })
    }
    this.#onUpdate?.(update, text.length, at)
  }
}

process.on('message', async (question: ViewersQuestion) => {
  process.send?.(question.kind === 'seen' ? seen.splice(0) : await first(question))
})
process.on('disconnect', () => process.exit())
process.send?.('ready')

async function first(question: Exclude<ViewersQuestion, { kind: 'seen' }>): Promise<First> {
  const begun = machineTime()
  if (question.kind === 'page') {
    const { node, limit } = question
    const shown = last?.until(({ pages }) => pages?.[node]?.order)
    last?.page(node, limit)
    const found = await shown
    if (!found) throw new Error('a page of no view')
    return { ...found, ms: found.at - begun }
  }
  const all = Array.from({ length: question.count }, () => {
    last = new Viewer(question)
    return last.until(({ pages, state }) => pages?.['']?.order ?? (state ? [] : undefined))
  })
  const found = await Promise.all(all)
  const at = Math.max(...found.map((one) => one.at))
  return { at, ms: at - begun, bytes: Math.max(...found.map(({ bytes }) => bytes)), order: found[0]?.order ?? [] }
}

function fail(error: Error): never {
  console.error(error.message)
  process.exit(1)
}
