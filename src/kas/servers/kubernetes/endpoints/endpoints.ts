import type { Target } from '../../../../kubernetes/request/target.ts'
import { type ContentHead, checkBodiless, checkMethod } from '../response/own-answer.ts'
import type { Endpoint } from './endpoint.ts'

export interface KnownEndpoints {
  /** The first one that matches path and method serves a request: two may share a path, with different methods. */
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
    const first = own.find((each) => isAt(each, path)) ?? cluster
    const asked = isFor(first, method) ? first : (own.find((each) => isAt(each, path) && isFor(each, method)) ?? first)
    const endpoint = wantsToken && asked.admit === cluster.admit ? token : asked
    if (!isFor(endpoint, method))
      checkMethod(method, endpoint === first ? this.#methodsAt(path) : (endpoint.methods ?? []))
    if (!endpoint.readsBodies) checkBodiless(method, head)
    return endpoint
  }

  #methodsAt(path: string): readonly string[] {
    return this.#known.own.flatMap((each) => (isAt(each, path) ? (each.methods ?? []) : []))
  }
}

function isFor({ methods }: Endpoint, method: string): boolean {
  return methods === undefined || methods.includes(method)
}

function isAt(endpoint: Endpoint, path: string): boolean {
  return endpoint.path === path || (endpoint.path.endsWith('/') && path.startsWith(endpoint.path))
}
