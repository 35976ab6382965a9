import type { IncomingMessage } from 'node:http'
import { request } from 'node:https'
import { text } from 'node:stream/consumers'
import { abortable, delay } from '../../../src/lib/signals.ts'
import { type KubeOptions, trustOf } from '../kube.ts'
import type { End } from './ends.ts'

/** pause after a request that failed. ms */
const retryMs = 200
/** requested lifetime of the watch; by default the API server ends a watch after 30 to 60 minutes */
const timeoutSeconds = 7200

/** A watch of ConfigMaps that resumes after each end, each time on a connection of its own. */
export class ResumedWatch {
  /** names of added ConfigMaps, in order */
  readonly names: string[] = []
  readonly ends: End[] = []
  /** requests with another status than 200 */
  readonly failures: string[] = []
  readonly #access: KubeOptions
  readonly #path: string
  readonly #stop = new AbortController()
  readonly #open = Promise.withResolvers<void>()
  #version: string
  #run: Promise<void> | undefined

  /** @param path - path of the collection, with a selector; the watch begins after `version` */
  constructor(access: KubeOptions, { path, version }: { path: string; version: string }) {
    this.#access = access
    this.#path = path
    this.#version = version
  }

  /** Resolves once it is open. @throws the signal's reason */
  async start(signal: AbortSignal): Promise<void> {
    this.#run = this.#follow()
    await abortable(this.#open.promise, signal)
  }

  async stop(): Promise<void> {
    this.#stop.abort()
    await this.#run
  }

  async #follow(): Promise<void> {
    const { signal } = this.#stop
    while (!signal.aborted) {
      try {
        const answer = await this.#ask()
        if (answer.statusCode !== 200) throw new Error(`${answer.statusCode} ${await text(answer)}`)
        this.#open.resolve()
        await this.#read(answer)
        if (!signal.aborted) this.ends.push({ at: performance.now(), inOrder: answer.complete })
      } catch (error) {
        if (signal.aborted) return
        this.failures.push(`a watch did not begin: ${(error as Error).message}`)
        await delay(retryMs)
      }
    }
  }

  #ask(): Promise<IncomingMessage> {
    const { server, credential } = this.#access
    const path = `${this.#path}&watch=1&timeoutSeconds=${timeoutSeconds}&resourceVersion=${this.#version}`
    const headers = { authorization: `Bearer ${credential}` }
    const options = { ...trustOf(this.#access), headers, agent: false, signal: this.#stop.signal }
    return new Promise((resolve, reject) => {
      const asked = request(new URL(path, server), options, resolve)
      asked.on('error', reject)
      asked.end()
    })
  }

  /** Resolves at its end, complete or cut. */
  async #read(answer: IncomingMessage): Promise<void> {
    let rest = ''
    try {
      for await (const chunk of answer.setEncoding('utf8')) {
        const lines = (rest + chunk).split('\n')
        rest = lines.pop() ?? ''
        for (const line of lines) this.#event(JSON.parse(line))
      }
    } catch {
      // cut: the events so far are complete
    }
  }

  #event({ type, object }: { type: string; object: { metadata: { name: string; resourceVersion: string } } }): void {
    this.#version = object.metadata.resourceVersion
    if (type === 'ADDED') this.names.push(object.metadata.name)
    else if (type !== 'DELETED' && type !== 'BOOKMARK') this.failures.push(`${type} ${JSON.stringify(object)}`)
  }
}
