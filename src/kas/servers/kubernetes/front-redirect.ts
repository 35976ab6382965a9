import type { IncomingMessage } from 'node:http'
import type { AgentId } from '../../../call/call.ts'
import { sameHash, tokenHash } from '../../../lib/token-hash.ts'
import type { Membership } from '../../../membership/membership.ts'
import { kubernetesApiMethod } from '../../../proto/http/http-over-grpc.ts'
import { readAccelRedirectSecret } from '../../config/secret-file.ts'
import type { Links } from '../../peers/links.ts'
import type { TunnelRegistry } from '../../tunnels/tunnel-registry.ts'
import type { Exchange } from './http/exchange.ts'
import type { RequestOutcome } from './http/metrics.ts'

export interface FrontRedirectComponents {
  readonly tunnels: Pick<TunnelRegistry, 'holds'>
  readonly membership: Pick<Membership, 'row'>
  readonly links: Pick<Links, 'candidates'>
}

export interface FrontRedirectOptions {
  /** name of this replica */
  readonly name: string
  /**
   * secret of all replicas and their front: required value of `Gitlab-Kas-Accel`, from
   * `agent.kubernetes_api.accel_redirect_secret_file`
   */
  readonly secret: string
}

/** Header by which a front offers to redirect requests (in node's spelling). */
const accelHeader = 'gitlab-kas-accel'

/** Valid names of locations of a front. */
const locationName = /^[A-Za-z0-9][A-Za-z0-9._-]*$/

/**
 * Chooses requests that a front should take to the holder, so that their bytes bypass this replica
 * (doc/guide/kubernetes-proxy.md "Behind a front").
 */
export class FrontRedirect {
  readonly #components: FrontRedirectComponents
  readonly #name: string
  readonly #secretHash: string

  constructor(components: FrontRedirectComponents, { name, secret }: FrontRedirectOptions) {
    this.#components = components
    this.#name = name
    this.#secretHash = tokenHash(secret)
  }

  /**
   * Returns the front's location for the replica that holds the agent: `@<name>`. Only such named locations keep method
   * and upgrade. Undefined: this replica forwards the request. Then the front cannot redirect or lacks the secret, this
   * replica holds the agent, or no other holder is surely reachable.
   *
   * @param request - has no body: the front has already sent it here
   */
  locationFor({ headers }: Pick<IncomingMessage, 'headers'>, agentId: AgentId): string | undefined {
    const secret = headers[accelHeader]
    if (typeof secret !== 'string' || !sameHash(tokenHash(secret), this.#secretHash)) return undefined
    const { tunnels, membership, links } = this.#components
    if (tunnels.holds(agentId)) return undefined
    const [best] = links.candidates(agentId, kubernetesApiMethod)
    if (best?.link.reach !== 'reachable') return undefined
    const { name, state } = membership.row(best.instance)?.head ?? {}
    if (name === undefined || name === this.#name || state !== 'serving' || !locationName.test(name)) return undefined
    return `@${name}`
  }
}

/**
 * @param options.file - `agent.kubernetes_api.accel_redirect_secret_file`; undefined: no request is redirected
 * @throws KasError SETTINGS_INVALID
 */
export async function frontRedirect(
  peering: (Pick<FrontRedirectComponents, 'links'> & { membership: Pick<Membership, 'row' | 'name'> }) | undefined,
  { tunnels, file }: Pick<FrontRedirectComponents, 'tunnels'> & { file: string | undefined },
): Promise<{ redirect?: FrontRedirect }> {
  if (file === undefined) return {}
  const secret = await readAccelRedirectSecret(file)
  if (!peering) return {} // alone: there is no other replica
  const { membership, links } = peering
  return { redirect: new FrontRedirect({ tunnels, membership, links }, { name: membership.name, secret }) }
}

/** Answers with the location only: a front may add other headers to the answer of the replica that it asks next. */
export async function redirectTo(location: string, exchange: Exchange): Promise<RequestOutcome> {
  exchange.upgrade?.refused()
  exchange.answer(200, ['X-Accel-Redirect', location], '')
  return 'redirected'
}
