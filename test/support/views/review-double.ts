import type { ApiClient } from '../../../src/agentk/cluster/api-client.ts'

/** A right of a user: `<group>/<resource>` and namespace; `*` for any. */
export type Right = readonly [resource: string, namespace: string]

interface Review {
  readonly kind: string
  readonly spec: { namespace?: string; resourceAttributes?: { group: string; resource: string; namespace: string } }
}

/** The API server's reviews, by rights that tests give and take. */
export class ReviewDouble implements Pick<ApiClient, 'json'> {
  /** rights by user's name; '': agentk itself */
  readonly rights = new Map<string, readonly Right[]>()
  readonly asked: { readonly user: string; readonly review: Review; readonly headers: readonly string[] }[] = []
  /** answers report rules as complete */
  knowsRules = true
  /** Events that the user may list there; undefined: the user may not list them */
  events: (user: string, path: string) => readonly object[] | undefined = () => undefined
  /** replaces the answer */
  answer: ((review: Review) => Promise<{ status: number; body: unknown }>) | undefined

  async json(
    ...[method, path, body, , options]: Parameters<ApiClient['json']>
  ): Promise<{ status: number; body: unknown }> {
    const review = body as Review
    const headers = options?.headers ?? []
    const user = headers[headers.indexOf('Impersonate-User') + 1] ?? ''
    if (method === 'GET') {
      const items = this.events(headers.length > 0 ? user : '', path)
      return items ? { status: 200, body: { items } } : { status: 403, body: {} }
    }
    this.asked.push({ user: headers.length > 0 ? user : '', review, headers })
    if (this.answer) return await this.answer(review)
    const rights = this.rights.get(headers.length > 0 ? user : '') ?? []
    const { namespace = '', resourceAttributes } = review.spec
    const status = resourceAttributes ? { allowed: allows(rights, resourceAttributes) } : this.#rules(rights, namespace)
    return { status: 201, body: { status } }
  }

  #rules(rights: readonly Right[], namespace: string) {
    const resourceRules = rights
      .filter(([, where]) => where === '*' || where === namespace)
      .map(([resource]) => ({
        verbs: ['list', 'watch'],
        apiGroups: [resource.split('/')[0]],
        resources: [resource.split('/')[1]],
      }))
    return { incomplete: !this.knowsRules, resourceRules }
  }
}

/** @param asked.namespace - empty: the whole cluster */
export function allows(
  rights: readonly Right[],
  asked: { group: string; resource: string; namespace: string },
): boolean {
  return rights.some(([what, where]) => {
    const [group, resource] = what.split('/')
    const isWhat = (group === '*' || group === asked.group) && (resource === '*' || resource === asked.resource)
    return isWhat && (where === '*' || (asked.namespace !== '' && where === asked.namespace))
  })
}
