import type { Target } from '../../../../kubernetes/request/target.ts'
import { type ContentHead, checkBodiless, checkMethod } from '../response/own-answer.ts'
import type { Endpoint } from './endpoint.ts'

export interface KnownEndpoints {
  /** the first one that matches a path serves it */
  readonly own: readonly Endpoint[]
  /** serves requests for a token, instead of the path's endpoint for callers */
  readonly token: Endpoint
  /** serves all other paths */
  readonly cluster: Endpoint
}

/** All endpoints of 8154. */
export class Endpoints {
  readonly #known: KnownEndpoints

  constructor(known: KnownEndpoints) {
    this.#known = known
  }

  /** @throws KasError METHOD_NOT_ALLOWED, BAD_REQUEST */
  find(method: string, { path, wantsToken }: Pick<Target, 'path' | 'wantsToken'>, head: ContentHead): Endpoint {
    const { own, token, cluster } = this.#known
    const asked = own.find((each) => isAt(each, path)) ?? cluster
    const endpoint = wantsToken && asked.admit === cluster.admit ? token : asked
    if (endpoint.methods) checkMethod(method, endpoint.methods)
    if (!endpoint.readsBodies) checkBodiless(method, head)
    return endpoint
  }
}

function isAt(endpoint: Endpoint, path: string): boolean {
  return endpoint.path === path || (endpoint.path.endsWith('/') && path.startsWith(endpoint.path))
}
