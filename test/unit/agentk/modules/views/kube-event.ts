/** @param second - time at which it was seen last */
export function event(name: string, second: number, fields: object = {}, about = 'u-pod') {
  return {
    metadata: { namespace: 'shop', name, uid: `u-${name}`, creationTimestamp: '2026-06-01T00:00:00Z' },
    involvedObject: { apiVersion: 'apps/v1', kind: 'Deployment', namespace: 'shop', name: 'web', uid: about },
    type: 'Warning',
    reason: 'Failed',
    message: 'it failed',
    count: 3,
    lastTimestamp: at(second),
    ...fields,
  }
}

export const at = (second: number) => new Date(Date.UTC(2026, 5, 2) + second * 1000).toISOString()
