/**
 * Policy that records every request of the namespace that creates an object or runs a command, as soon as it arrives.
 */
export const auditPolicy = (namespace: string) => ({
  apiVersion: 'audit.k8s.io/v1',
  kind: 'Policy',
  rules: [
    {
      level: 'Metadata',
      namespaces: [namespace],
      resources: [{ group: '', resources: ['configmaps', 'pods/exec'] }],
    },
    { level: 'None' },
  ],
})

interface AuditEvent {
  readonly auditID: string
  readonly verb: string
  readonly requestURI: string
  readonly objectRef?: { readonly resource?: string; readonly subresource?: string }
}

/**
 * Counts how often each request has reached the API server, by the identity in its URI. That is the field manager of a
 * request that creates an object, or the last word of a command.
 *
 * @param log - one event a line; a request has several, one for each stage that it reached
 */
export function countRequests(log: string): Map<string, number> {
  const ids = new Map<string, Set<string>>()
  for (const line of log.split('\n')) {
    if (line === '') continue
    const event = JSON.parse(line) as AuditEvent
    const identity = identityOf(event)
    if (identity === undefined) continue
    ids.set(identity, (ids.get(identity) ?? new Set()).add(event.auditID))
  }
  return new Map(Array.from(ids, ([identity, { size }]) => [identity, size]))
}

function identityOf({ verb, requestURI, objectRef }: AuditEvent): string | undefined {
  const { searchParams } = new URL(requestURI, 'https://kubernetes')
  if (objectRef?.subresource === 'exec') return searchParams.getAll('command').at(-1)
  return verb === 'create' ? (searchParams.get('fieldManager') ?? undefined) : undefined
}
