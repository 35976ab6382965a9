import t from 'tap'
import { parseSelectors } from '../../../../dev/api-double/selectors.ts'

const pod = {
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'clock', namespace: 'demo', labels: { app: 'clock', tier: 'front', 'a.b/c': 'd' } },
  status: { phase: 'Running' },
}
const matches = (query: Record<string, string>) => parseSelectors(new URLSearchParams(query))(pod)

t.test('field selectors', async (t) => {
  for (const selector of [
    'metadata.name=clock',
    'metadata.name==clock,status.phase=Running',
    'spec.nodeName=',
    'status.phase!=Failed',
  ]) {
    t.ok(matches({ fieldSelector: selector }), selector)
  }
  for (const selector of ['metadata.name=other', 'metadata.name=clock,status.phase!=Running', 'spec.nodeName=x']) {
    t.notOk(matches({ fieldSelector: selector }), selector)
  }
  t.throws(() => matches({ fieldSelector: 'metadata.name' }), { code: 400 })
})

t.test('label selectors', async (t) => {
  const yes = [
    'app=clock',
    'app==clock,tier!=back',
    'app in (echo, clock)',
    'tier notin (back),app',
    '!gone',
    'a.b/c=d',
    'gone!=x',
    '',
  ]
  for (const selector of yes) t.ok(matches({ labelSelector: selector }), selector)
  const no = [
    'app=echo',
    'app=clock,tier=back',
    'app in (echo)',
    'app notin (echo,clock)',
    '!app',
    'gone',
    'gone in (x)',
  ]
  for (const selector of no) t.notOk(matches({ labelSelector: selector }), selector)
  t.throws(() => matches({ labelSelector: 'a b c' }), { code: 400 })
  t.throws(() => matches({ labelSelector: 'x'.repeat(5000) }), { code: 400 })
})

t.test('both must hold', async (t) => {
  t.ok(matches({ fieldSelector: 'metadata.name=clock', labelSelector: 'app=clock' }))
  t.notOk(matches({ fieldSelector: 'metadata.name=clock', labelSelector: 'app=echo' }))
})
