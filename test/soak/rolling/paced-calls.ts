import { request } from 'node:https'
import { text } from 'node:stream/consumers'
import { Pool } from 'undici'
import { type KubeOptions, trustOf } from '../kube.ts'

export interface PacedCallsOptions {
  readonly access: KubeOptions
  /** credentials that take turns; default: that of `access` */
  readonly users?: readonly string[]
  /** calls that begin each second, also while earlier ones still run */
  readonly perSecond: number
  /** namespace of ConfigMaps; no other program creates any with these labels */
  readonly namespace: string
  readonly labels: Readonly<Record<string, string>>
  /** limit of a call, after which it has failed; default: 30 s, since kas waits up to 20 s for an agent */
  readonly patienceMs?: number
}

type Kind = 'GET' | 'POST' | 'DELETE'

interface Answer {
  readonly status: number
  /** `Kas-Delivery` of kas' own answers */
  readonly delivery: string | string[] | undefined
  readonly body: string
}

/** A call with a wrong answer or none. */
export interface FailedCall {
  readonly kind: Kind
  /** as `performance.now()` */
  readonly begunAt: number
  /** description in one line */
  readonly told: string
}

/** kinds in turn; created objects are deleted, so leftovers show what was created twice */
const kinds: readonly Kind[] = ['GET', 'POST', 'GET', 'DELETE']
/** one call in so many uses a new connection of its own; the others use kept ones */
const freshEvery = 5
const paceMs = 10
const keptConnections = 32
/** Limit of an idle kept connection: after a replica's listen grace it may be closed just when a call comes on it. */
const keptMs = 1000
/** limit of running calls: more would wait for this machine. Calls beyond it are left out, and counted */
const maxRunning = 200
const removedAtOnce = 10
const defaultPatienceMs = 30_000

/** Calls at a steady pace, on kept connections and on new ones, never repeated: reads, creations, deletions. */
export class PacedCalls {
  /** one line each */
  readonly failures: string[] = []
  /** failures of single calls */
  readonly failed: FailedCall[] = []
  /** time from the call to the last byte. ms */
  readonly tookMs: Record<Kind, number[]> = { GET: [], POST: [], DELETE: [] }
  readonly #options: PacedCallsOptions
  readonly #path: string
  readonly #pool: Pool
  /** creations without an answer, or with an unclear one, by number: the objects may exist */
  readonly #unanswered = new Set<number>()
  /** names of objects whose deletion had no answer, or an unclear one */
  readonly #unremoved = new Set<string>()
  /** names of objects that exist */
  readonly #made: string[] = []
  readonly #running = new Set<Promise<void>>()
  /** description of the slowest call, as of a failure */
  slowest = 'none'
  /** calls that did not begin, because the machine did not keep up */
  leftOut = 0
  #slowestMs = 0
  #pace: NodeJS.Timeout | undefined
  #began = 0
  #endedAt = 0
  #count = 0
  #asked = 0

  constructor(options: PacedCallsOptions) {
    const { access, namespace } = options
    this.#options = options
    this.#path = `/api/v1/namespaces/${namespace}/configmaps`
    const timeouts = { headersTimeout: 0, bodyTimeout: 0, keepAliveTimeout: keptMs, keepAliveMaxTimeout: keptMs }
    this.#pool = new Pool(access.server, { connections: keptConnections, connect: trustOf(access), ...timeouts })
  }

  start(): void {
    this.#began = performance.now()
    this.#pace = setInterval(() => {
      const due = Math.floor(((performance.now() - this.#began) / 1000) * this.#options.perSecond)
      while (this.#count < due) this.#begin(++this.#count)
    }, paceMs)
  }

  /** Average rate while calls were begun. */
  get perSecond(): number {
    return (this.#count - this.leftOut) / (((this.#endedAt || performance.now()) - this.#began) / 1000)
  }

  /** Waits for running calls, and deletes the objects that are left. */
  async stop(): Promise<void> {
    clearInterval(this.#pace)
    this.#endedAt = performance.now()
    await Promise.all(this.#running)
    try {
      await Promise.all(Array.from({ length: removedAtOnce }, () => this.#removeRest()))
      await this.#expectNothingLeft()
    } catch (error) {
      this.failures.push(`what was made could not be removed: ${(error as Error).message}`)
    }
    await this.#pool.destroy()
  }

  #begin(number: number): void {
    if (this.#running.size >= maxRunning) {
      this.leftOut++
      return
    }
    const turn = kinds[number % kinds.length] as Kind
    const name = turn === 'DELETE' ? this.#made.shift() : undefined
    const kind = turn === 'DELETE' && name === undefined ? 'GET' : turn
    const call = this.#call(kind, number, name).finally(() => this.#running.delete(call))
    this.#running.add(call)
  }

  async #call(kind: Kind, number: number, name: string | undefined): Promise<void> {
    const isFresh = number % freshEvery === 0
    const at = performance.now()
    const problem = await this.#do(kind, { number, name, isFresh })
    const tookMs = performance.now() - at
    this.tookMs[kind].push(tookMs)
    if (!problem && tookMs <= this.#slowestMs) return
    const seconds = ((at - this.#began) / 1000).toFixed(1)
    const where = isFresh ? 'a fresh connection' : 'a kept connection'
    const told = `${kind} on ${where}, begun at ${seconds} s, took ${tookMs.toFixed(0)} ms`
    if (problem) {
      this.failures.push(`${told}: ${problem}`)
      this.failed.push({ kind, begunAt: at, told: `${told}: ${problem}` })
    }
    if (tookMs <= this.#slowestMs) return
    this.#slowestMs = tookMs
    this.slowest = told
  }

  /** @returns the fault of the answer; undefined: none */
  async #do(
    kind: Kind,
    { number, name, isFresh }: { number: number; name: string | undefined; isFresh: boolean },
  ): Promise<string | undefined> {
    try {
      if (kind === 'POST') return await this.#make(number, isFresh)
      if (kind === 'DELETE') return await this.#remove(name as string, isFresh)
      return await this.#read(`none-${number}`, isFresh)
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException
      return `no answer: ${code ?? ''} ${message}`
    }
  }

  /** Reads an object that does not exist: the answer names it, which shows an answer to another call. */
  async #read(name: string, isFresh: boolean): Promise<string | undefined> {
    const answer = await this.#ask('GET', { path: `${this.#path}/${name}`, isFresh })
    if (answer.status !== 404) return told(answer)
    const { details } = JSON.parse(answer.body) as { details?: { name?: string } }
    return details?.name === name ? undefined : told(answer)
  }

  async #make(number: number, isFresh: boolean): Promise<string | undefined> {
    const metadata = { generateName: 'made-', labels: this.#options.labels, annotations: { call: String(number) } }
    const body = { kind: 'ConfigMap', apiVersion: 'v1', metadata }
    this.#unanswered.add(number)
    const answer = await this.#ask('POST', { path: this.#path, isFresh, body })
    if (answer.delivery !== 'maybe') this.#unanswered.delete(number)
    if (answer.status !== 201) return told(answer)
    const made = (JSON.parse(answer.body) as { metadata: { name: string; annotations: { call: string } } }).metadata
    this.#made.push(made.name)
    return made.annotations.call === String(number) ? undefined : 'the answer is that of another call'
  }

  async #remove(name: string, isFresh: boolean): Promise<string | undefined> {
    this.#unremoved.add(name)
    const answer = await this.#ask('DELETE', { path: `${this.#path}/${name}`, isFresh })
    if (answer.delivery !== 'maybe') this.#unremoved.delete(name)
    return answer.status === 200 ? undefined : told(answer)
  }

  async #removeRest(): Promise<void> {
    for (let name = this.#made.shift(); name !== undefined; name = this.#made.shift()) {
      const problem = await this.#remove(name, false)
      if (problem) this.failures.push(`what was made is not there: ${problem}`)
    }
  }

  async #expectNothingLeft(): Promise<void> {
    const selector = Object.entries(this.#options.labels).map(([name, value]) => `${name}=${value}`)
    const path = `${this.#path}?labelSelector=${encodeURIComponent(selector.join())}`
    const answer = await this.#ask('GET', { path, isFresh: true })
    if (answer.status !== 200) return void this.failures.push(`what was made could not be listed: ${told(answer)}`)
    type Item = { metadata: { name: string; annotations: { call: string } } }
    const { items } = JSON.parse(answer.body) as { items: Item[] }
    for (const { name, annotations } of items.map(({ metadata }) => metadata)) {
      const mayBeThere = this.#unanswered.has(Number(annotations.call)) || this.#unremoved.has(name)
      if (!mayBeThere) this.failures.push(`POST ${annotations.call} was delivered twice`)
    }
  }

  #ask(method: Kind, init: { path: string; isFresh: boolean; body?: object }): Promise<Answer> {
    const { access, users = [access.credential], patienceMs = defaultPatienceMs } = this.#options
    const content = init.body && JSON.stringify(init.body)
    const headers = {
      authorization: `Bearer ${users[this.#asked++ % users.length]}`,
      ...(content && { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(content)) }),
    }
    const signal = AbortSignal.timeout(patienceMs)
    return init.isFresh
      ? askFresh(access, { method, path: init.path, headers, signal, content })
      : this.#askKept({ method, path: init.path, headers, signal, content })
  }

  async #askKept({ method, path, headers, signal, content }: Sent): Promise<Answer> {
    const answer = await this.#pool.request({ method, path, headers, signal, ...(content && { body: content }) })
    const delivery = answer.headers['kas-delivery']
    return { status: answer.statusCode, delivery, body: await answer.body.text() }
  }
}

interface Sent {
  readonly method: Kind
  readonly path: string
  readonly headers: Record<string, string>
  readonly signal: AbortSignal
  readonly content: string | undefined
}

function askFresh(access: KubeOptions, { method, path, headers, signal, content }: Sent): Promise<Answer> {
  const options = { ...trustOf(access), method, headers, signal, agent: false }
  return new Promise((resolve, reject) => {
    const asked = request(new URL(path, access.server), options, (answer) => {
      const { statusCode: status = 0, headers } = answer
      text(answer).then((body) => resolve({ status, delivery: headers['kas-delivery'], body }), reject)
    })
    asked.on('error', reject)
    asked.end(content)
  })
}

function told({ status, delivery, body }: Answer): string {
  return `${status} ${delivery === undefined ? '' : `Kas-Delivery: ${delivery}: `}${body.slice(0, 300)}`
}
