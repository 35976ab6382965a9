import { once } from 'node:events'
import { WebSocket } from 'ws'
import { abortable } from '../../src/lib/signals.ts'
import { type Query, type ViewsMessage, type ViewsRequest, viewsProtocol } from '../../src/proto/views-json.ts'
import { EvilUser, evilAddress, type SharedCluster, type Stage, sharedOf, told } from './stage.ts'

/** requests at the same time */
const atOnce = 8

/** A user with all rights in one namespace of the cluster that good tenants use. */
export class Mallory {
  readonly #stage: Stage
  readonly #shared: SharedCluster
  readonly #user: EvilUser
  readonly #signal: AbortSignal

  constructor(stage: Stage, signal: AbortSignal) {
    this.#stage = stage
    this.#shared = sharedOf(stage)
    this.#user = new EvilUser(stage, atOnce)
    this.#signal = signal
  }

  /** @param resource - `api/v1 configmaps`. @returns the created objects, in order. @throws Error if one is refused */
  async create<Made>(resource: string, objects: readonly object[]): Promise<Made[]> {
    return await inParts(objects, (body) => this.#send(this.#path(resource), { method: 'POST', body }) as Promise<Made>)
  }

  /** Sends merge patches. @throws Error if one is refused */
  async patch(
    resource: string,
    ...patches: readonly { readonly name: string; readonly body: object }[]
  ): Promise<void> {
    const contentType = 'application/merge-patch+json'
    const path = this.#path(resource)
    await inParts(patches, ({ name, body }) => this.#send(`${path}/${name}`, { method: 'PATCH', body, contentType }))
  }

  /** Deletes all objects with the label; not while the attack is measured. */
  async remove(resource: string, label: string): Promise<void> {
    const path = `${this.#path(resource)}?labelSelector=${encodeURIComponent(label)}`
    const credential = this.#shared.userCredential
    await this.#user.send(this.#stage.entry, path, { method: 'DELETE', credential })
  }

  close(): void {
    this.#user.close()
  }

  #path(resource: string): string {
    const [version, plural] = resource.split(' ')
    return `/${version}/namespaces/${this.#shared.namespace}/${plural}`
  }

  async #send(path: string, init: { method: string; body: object; contentType?: string }): Promise<unknown> {
    const credential = this.#shared.userCredential
    const answer = await this.#user.send(this.#stage.entry, path, { ...init, credential, signal: this.#signal })
    if (answer.status >= 300) throw new Error(`${path}: ${told(answer)}`)
    return JSON.parse(answer.body)
  }
}

/** Sends some at the same time. @returns the results, in order */
async function inParts<One, Made>(all: readonly One[], send: (one: One) => Promise<Made>): Promise<Made[]> {
  const made: Made[] = []
  let next = 0
  const some = async () => {
    for (let i = next++; i < all.length; i = next++) made[i] = await send(all[i] as One)
  }
  await Promise.all(Array.from({ length: atOnce }, some))
  return made
}

/** One open view of the attacker, who reads all of it. */
export class EvilView {
  readonly #socket: WebSocket
  readonly #waiting = new Set<() => void>()
  /** ids of all rows so far */
  readonly rows = new Set<string>()
  /** error that ended it; empty: it is open */
  error = ''

  private constructor(socket: WebSocket) {
    this.#socket = socket
    socket.on('message', (data) => this.#take(JSON.parse(String(data))))
    socket.on('error', ({ message }) => this.#end(message))
    socket.on('close', () => this.#end(this.error || 'the socket was closed'))
  }

  /** Resolves once there is a row. @throws Error if it is refused; the signal's reason */
  static async open(stage: Stage, query: Pick<Query, 'filter' | 'limit'>, signal: AbortSignal): Promise<EvilView> {
    const { userCredential, namespace } = sharedOf(stage)
    const socket = new WebSocket(`wss://127.0.0.1:${stage.entry.kubernetes}/views`, viewsProtocol, {
      ca: stage.ca,
      localAddress: evilAddress,
      headers: { authorization: `Bearer ${userCredential}` },
    })
    const view = new EvilView(socket)
    await abortable(Promise.race([once(socket, 'open'), once(socket, 'close')]), signal)
    const [, agent = ''] = userCredential.split(':')
    view.#send({ type: 'open', id: 1, agent, view: 'tree', scope: { namespaces: [namespace] }, ...query })
    await view.shown(({ size }) => size > 0, signal)
    return view
  }

  /** Resolves once `isEnough` is true of the ids so far. @throws Error if the view has ended; the signal's reason */
  async shown(isEnough: (rows: ReadonlySet<string>) => boolean, signal: AbortSignal): Promise<void> {
    try {
      while (!isEnough(this.rows)) {
        if (this.error) throw new Error(this.error)
        await abortable(new Promise<void>((resolve) => void this.#waiting.add(resolve)), signal)
      }
    } catch (error) {
      this.close()
      throw error
    }
  }

  /** Asks for the children of a node. */
  page(node: string, limit: number): void {
    this.#send({ type: 'page', id: 1, node, limit })
  }

  close(): void {
    this.#socket.terminate()
  }

  #take(message: ViewsMessage): void {
    if (message.type === 'error') this.#end(`${message.code} ${message.text}`)
    else {
      for (const { u } of message.update.rows ?? []) this.rows.add(u)
      this.#wake()
    }
  }

  #end(error: string): void {
    this.error ||= error
    this.#wake()
  }

  #wake(): void {
    for (const resolve of this.#waiting) resolve()
    this.#waiting.clear()
  }

  #send(message: ViewsRequest): void {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(message))
  }
}

/** the fields of `gitops/state` that the attacker reads */
interface SourceShown {
  readonly source: string
  readonly phase: string
  readonly problem: string
  readonly trouble: readonly { readonly text: string; readonly file: string; readonly line: number }[]
}

/** Waits for the problem of the attacker's source in `gitops/state`. @param branch - branch of the source */
export async function toldOfSource(stage: Stage, branch: string, signal: AbortSignal): Promise<string> {
  const { userCredential, project } = sharedOf(stage)
  const [, agent] = userCredential.split(':')
  const user = new EvilUser(stage, 1)
  const answer = await user.get(stage.entry, '/gitops/state', { credential: userCredential, signal })
  user.close()
  if (answer.status !== 200) return told(answer)
  const { sources } = JSON.parse(answer.body) as { sources: readonly SourceShown[] }
  const found = sources.find(({ source }) => source === `${agent}-${project.id}-${branch}`)
  if (!found) return 'nothing'
  const trouble = found.trouble.map(({ text, file, line }) => `${text} (${file}:${line})`)
  return [found.phase, found.problem, ...trouble].filter(Boolean).join(' ')
}
