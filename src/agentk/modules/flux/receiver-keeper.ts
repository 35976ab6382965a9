import { builtIn, type GroupVersionResource, parseApiVersion } from '../../../kubernetes/kind.ts'
import { collectionPath, objectPath, withQuery } from '../../../kubernetes/path.ts'
import type { Clock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import type { Logger } from '../../../lib/log.ts'
import type { ApiClient } from '../../cluster/api-client.ts'
import { resources } from './flux-apis.ts'
import type { Receiver } from './flux-objects.ts'
import { isAsWanted, receiverManifest, receiverName, secretManifest, type Wanted } from './own-receiver.ts'
import { othersReceivers, ownReceiver, ReceiverIndex } from './receiver-choice.ts'

export interface ReceiverKeeperComponents {
  readonly client: Pick<ApiClient, 'json'>
  /** true if this pod may act; asked before each change */
  readonly holds: () => boolean
  readonly log: Logger
  readonly clock: Clock
}

/** Least time between two repairs of one Receiver, so that agentk and another writer do not write in a loop. ms */
const repairEveryMs = 60_000
/** Time after a refusal until agentk tries that namespace again. ms */
const deniedMs = 300_000
const fieldManager = 'agentk'
const needed = ['create secrets', 'create, patch receivers.notification.toolkit.fluxcd.io']

/** `conflict`: the object exists, or another client has changed it; `left`: not allowed, or this pod may not act */
type Outcome = 'done' | 'conflict' | 'left'

interface Known {
  readonly receivers: ReadonlyMap<string, Receiver>
  readonly index: ReceiverIndex
}

/**
 * Makes a Receiver and its Secret for each GitRepository that has no Receiver, and repairs the Receivers that agentk
 * made. The GitRepository owns both, so the cluster deletes them with it. agentk deletes nothing.
 */
export class ReceiverKeeper {
  readonly #components: ReceiverKeeperComponents
  /** time of the last repair, by the Receiver's key. ms since 1970 */
  readonly #repairedAt = new Map<string, number>()
  /** time of the last refusal, by namespace. ms since 1970 */
  readonly #deniedAt = new Map<string, number>()
  #isDeniedLogged = false
  /** false: this round left out a change because this pod may not act */
  #isWhole = true

  constructor(components: ReceiverKeeperComponents) {
    this.#components = components
  }

  /** True if the API server recently refused to make Receivers in this namespace. */
  isDenied(namespace: string): boolean {
    return this.#deniedAt.has(namespace)
  }

  /**
   * Reconciles all GitRepositories once.
   *
   * @returns false: incomplete, since this pod may not act
   * @throws the connection's error; or, after all were tried, the first KasError UNREACHABLE, with a status
   */
  async reconcile(
    all: readonly Wanted[],
    receivers: ReadonlyMap<string, Receiver>,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { clock, holds } = this.#components
    for (const key of this.#repairedAt.keys()) if (!receivers.has(key)) this.#repairedAt.delete(key)
    for (const [namespace, at] of this.#deniedAt) if (clock.now() - at >= deniedMs) this.#deniedAt.delete(namespace)
    const index = new ReceiverIndex(receivers.values())
    const failures: KasError[] = []
    this.#isWhole = true
    for (const wanted of all) {
      if (signal.aborted || !holds()) return false
      if (this.isDenied(wanted.repository.namespace)) continue
      try {
        await this.#keep(wanted, { receivers, index }, signal)
      } catch (error) {
        if (!(error instanceof KasError)) throw error
        failures.push(error)
      }
    }
    if (failures[0]) throw failures[0]
    return this.#isWhole
  }

  async #keep(wanted: Wanted, { receivers, index }: Known, signal: AbortSignal): Promise<void> {
    const candidates = index.of(wanted.repository)
    const own = ownReceiver(wanted.repository, candidates)
    if (own) return await this.#repair(own, wanted, signal)
    if (othersReceivers(wanted.repository, candidates).length > 0) return
    await this.#make(wanted, receivers, signal)
  }

  async #repair(own: Receiver, wanted: Wanted, signal: AbortSignal): Promise<void> {
    const wantsSecret = own.isBroken && own.webhookPath === ''
    if (own.isSuspended || (isAsWanted(own, wanted) && !wantsSecret)) return
    const { clock } = this.#components
    if (clock.now() - (this.#repairedAt.get(own.key) ?? 0) < repairEveryMs) return
    this.#repairedAt.set(own.key, clock.now())
    if (wantsSecret) await this.#makeSecret(wanted, signal)
    if (isAsWanted(own, wanted)) return
    const { namespace } = wanted.repository
    const target = objectPath(receiversOf(wanted), { namespace, name: own.name })
    const path = withQuery(target, { fieldManager, force: true })
    const body = receiverManifest(wanted, own.name)
    const outcome = await this.#send({ method: 'PATCH', path, body, signal }, wanted)
    if (outcome === 'done') this.#say(wanted, own.name, 'Repaired a Receiver')
    if (outcome === 'left') this.#repairedAt.delete(own.key)
  }

  async #make(wanted: Wanted, receivers: ReadonlyMap<string, Receiver>, signal: AbortSignal): Promise<void> {
    const { repository } = wanted
    const usual = receivers.get(`${repository.namespace}/${receiverName(repository)}`)
    // its owner, an earlier GitRepository of that name, is deleted: the cluster collects it; without an owner it stays
    if (usual?.isManaged && usual.ownerUid !== '') return
    const name = receiverName(repository, usual !== undefined)
    if ((await this.#makeSecret(wanted, signal)) === 'left') return
    const path = withQuery(collectionPath(receiversOf(wanted), repository.namespace), { fieldManager })
    const outcome = await this.#send({ method: 'POST', path, body: receiverManifest(wanted, name), signal }, wanted)
    if (outcome === 'done') this.#say(wanted, name, 'Made a Receiver')
  }

  /** Makes the Secret. An existing one stays as it is: agentk may not read it. */
  #makeSecret(wanted: Wanted, signal: AbortSignal): Promise<Outcome> {
    const { namespace } = wanted.repository
    const path = withQuery(collectionPath(builtIn.secrets, namespace), { fieldManager })
    return this.#send({ method: 'POST', path, body: secretManifest(wanted), signal }, wanted)
  }

  async #send(
    request: {
      readonly method: 'POST' | 'PATCH'
      readonly path: string
      readonly body: object
      readonly signal: AbortSignal
    },
    { repository }: Wanted,
  ): Promise<Outcome> {
    const { client, holds } = this.#components
    if (!holds()) {
      this.#isWhole = false
      return 'left'
    }
    const { method, path, body, signal } = request
    const contentType = method === 'PATCH' ? 'application/apply-patch+yaml' : 'application/json'
    const { status, body: answer } = await client.json(method, path, body, signal, { contentType })
    if (status < 300) return 'done'
    if (status === 409) return 'conflict'
    if (status === 403) return this.#denied(repository.namespace, answer)
    throw new KasError({ code: 'UNREACHABLE', detail: `the API server answered ${status}${messageOf(answer)}` })
  }

  #denied(namespace: string, answer: unknown): 'left' {
    const { log, clock } = this.#components
    this.#deniedAt.set(namespace, clock.now())
    const fields = { needed, namespace, reason: `the API server answered 403${messageOf(answer)}` }
    const sentence = 'agentk may not make Receivers of Flux, it uses those that there are'
    if (this.#isDeniedLogged) log.debug(fields, sentence)
    else log.warn(fields, sentence)
    this.#isDeniedLogged = true
    return 'left'
  }

  #say({ repository, project }: Wanted, name: string, sentence: string): void {
    this.#components.log.info({ receiver: `${repository.namespace}/${name}`, project_id: project }, sentence)
  }
}

/** Returns the message of a refusal. It names objects and rights, no contents. */
function messageOf(answer: unknown): string {
  const { message } = (answer ?? {}) as { message?: unknown }
  return typeof message === 'string' ? `: ${message}` : ''
}

function receiversOf({ apis }: Wanted): GroupVersionResource {
  return { ...parseApiVersion(apis.receivers), plural: resources.receivers }
}
