import t from 'tap'
import { healthCell, healthLines } from '../../../../../../src/kas/modules/gitops/cli/health-text.ts'

const none = { healthy: 0, progressing: 0, degraded: 0, suspended: 0, missing: 0, unknown: 0, unread: 0 }

t.test('healthy is said only if all objects are known to be', async (t) => {
  const at = { stale: false, commit: 'a', wanted: 'a' }
  const cell = (counts: object, more: object = {}) => healthCell({ health: { ...none, ...counts }, ...at, ...more })
  t.equal(cell({ healthy: 3 }), 'healthy')
  t.equal(cell({}), '-', 'a ConfigMap cannot be unhealthy')
  t.equal(cell({ healthy: 3, unread: 1 }), '?')
  t.equal(cell({ healthy: 3 }, { stale: true }), '?', 'the pod that reported it is gone')
  t.equal(cell({ healthy: 3 }, { wanted: 'b' }), '?', 'another commit is being applied')
  t.equal(cell({ healthy: 3, progressing: 1 }), '1 progressing')
  t.equal(cell({ degraded: 2, progressing: 1, missing: 1 }), '2 degraded')
  t.equal(cell({ degraded: 2, unread: 1 }), '2 degraded?')
  t.equal(cell({ suspended: 1 }), '1 suspended')
  t.equal(healthCell({ health: undefined, ...at }), '?', 'an older agentk')
})

t.test('an unhealthy object has a line with its cause', async (t) => {
  const key = { kind: 'Deployment', namespace: 'shop', name: 'web' }
  const one = { key, word: 'degraded', reason: 'Bad', text: 'it fails', since_ms: '0' }
  t.strictSame(healthLines({ unhealthy: [one] }), ['Deployment shop/web: degraded: Bad: it fails'])
  t.strictSame(healthLines({ unhealthy: [{ ...one, culprit: key }] }), ['Deployment shop/web: degraded: Bad: it fails'])
  const culprit = { kind: 'Pod', namespace: 'shop', name: 'web-x' }
  t.strictSame(healthLines({ unhealthy: [{ ...one, culprit }] }), [
    'Deployment shop/web: degraded: Pod shop/web-x: Bad: it fails',
  ])
  t.strictSame(healthLines({ unhealthy: [{ ...one, reason: '', text: '', word: 'missing' }] }), [
    'Deployment shop/web: missing',
  ])
  t.strictSame(healthLines({ unlisted: ['Pod: agentk may not list them (403)'] }), [
    'causes may not be found: Pod: agentk may not list them (403)',
  ])
})
