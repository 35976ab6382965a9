import { builtIn } from '../../../../kubernetes/kind.ts'
import { collectionPath, objectPath, withQuery } from '../../../../kubernetes/path.ts'
import { KasError } from '../../../../lib/errors.ts'
import { type ApiClient, bodyOf } from '../../../cluster/api-client.ts'

export type JsonApi = Pick<ApiClient, 'json'>

export interface ConfigMap {
  readonly metadata: {
    readonly name: string
    readonly labels?: Readonly<Record<string, string>>
    readonly resourceVersion?: string
    readonly uid?: string
  }
  readonly data?: Readonly<Record<string, string>>
}

interface Page {
  readonly items?: readonly ConfigMap[]
  readonly metadata?: { readonly continue?: string }
}

/** ConfigMaps in a page. */
const pageSize = 8
/** Limit of pages of one list: an API server that always names a next one would be asked without end. */
const maxPages = 1000
/** Limit of a page: a ConfigMap has up to 1 MiB, and somewhat more as JSON. */
const maxPageBytes = 16 * 1024 * 1024
/** Limit of an answer to a write, which repeats the ConfigMap. */
const maxObjectBytes = 3 * 1024 * 1024

/** ConfigMaps of one namespace. A write fails if somebody else has written since. */
export class ConfigMaps {
  readonly #api: JsonApi
  readonly #collection: string
  readonly #namespace: string

  constructor(api: JsonApi, namespace: string) {
    this.#api = api
    this.#namespace = namespace
    this.#collection = collectionPath(builtIn.configMaps, namespace)
  }

  /**
   * @param selector - label selector. @throws KasError UNREACHABLE with the server's status, INVALID_MESSAGE: the list has
   * too many pages
   */
  async list(selector: string, signal: AbortSignal): Promise<ConfigMap[]> {
    const found: ConfigMap[] = []
    let next = ''
    for (let pages = 0; pages < maxPages; pages++) {
      const query = { labelSelector: selector, limit: String(pageSize), ...(next && { continue: next }) }
      const page = await this.#page(query, maxPageBytes, signal)
      found.push(...(page.items ?? []))
      next = page.metadata?.continue ?? ''
      if (next === '') return found
    }
    throw new KasError({ code: 'INVALID_MESSAGE', detail: `the list of ConfigMaps has more than ${maxPages} pages` })
  }

  /** Returns one ConfigMap that the selector matches. @throws as `list` */
  async first(selector: string, signal: AbortSignal): Promise<ConfigMap | undefined> {
    const { items = [] } = await this.#page({ labelSelector: selector, limit: '1' }, maxObjectBytes, signal)
    return items[0]
  }

  /**
   * Creates the ConfigMap, or replaces the version that it names.
   *
   * @returns the new version. @throws KasError UNREACHABLE with the server's status: 409 or 404 if somebody else has
   * written
   */
  write(map: ConfigMap, signal: AbortSignal): Promise<ConfigMap> {
    const body = { apiVersion: 'v1', kind: 'ConfigMap', ...map }
    const isNew = map.metadata.resourceVersion === undefined
    const path = isNew ? this.#collection : this.#pathOf(map)
    return this.#ask([isNew ? 'POST' : 'PUT', path, body, signal, { maxBytes: maxObjectBytes }])
  }

  /** Deletes the version that it names; a missing ConfigMap is no error. @throws as `write` */
  async delete(map: ConfigMap, signal: AbortSignal): Promise<void> {
    const { resourceVersion, uid } = map.metadata
    const body = { apiVersion: 'v1', kind: 'DeleteOptions', preconditions: { resourceVersion, uid } }
    const answer = await this.#api.json('DELETE', this.#pathOf(map), body, signal)
    if (answer.status !== 404) bodyOf(answer)
  }

  #page(query: Readonly<Record<string, string>>, maxBytes: number, signal: AbortSignal): Promise<Page> {
    return this.#ask(['GET', withQuery(this.#collection, query), undefined, signal, { maxBytes }])
  }

  #pathOf({ metadata }: ConfigMap): string {
    return objectPath(builtIn.configMaps, { namespace: this.#namespace, name: metadata.name })
  }

  async #ask<Answer>(request: Parameters<JsonApi['json']>): Promise<Answer> {
    return bodyOf(await this.#api.json(...request)) as Answer
  }
}

/** True if the error says that the account may not do this. */
export function isForbidden(error: unknown): boolean {
  return error instanceof KasError && error.spec.code === 'UNREACHABLE' && error.spec.httpStatus === 403
}
