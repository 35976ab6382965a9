import t from 'tap'
import type { Answer, Caller } from '../../../../dev/demo/caller.ts'
import { Ledger } from '../../../../dev/demo/ledger.ts'

interface Made {
  readonly metadata: { readonly name: string; readonly labels: Record<string, string> }
}

const answer = (status: number, delivery?: Answer['delivery'], body = ''): Answer => ({
  status,
  body,
  delivery,
  tookMs: 1,
})

/** A cluster that gets each create `deliveries` times, behind a kas that answers with `said`. */
function clusterOf(steps: readonly { deliveries: number; said: Answer }[]) {
  const made: Made[] = []
  const removed: string[] = []
  let next = 0
  const ask: Caller['ask'] = async (path, { method = 'GET', body } = {}) => {
    if (method === 'DELETE') {
      removed.push(path.split('/').at(-1) ?? '')
      return answer(200)
    }
    if (method === 'GET') return answer(200, undefined, JSON.stringify({ items: made }))
    const { deliveries, said } = steps[next++] ?? { deliveries: 0, said: answer(500) }
    const { metadata } = body as { metadata: { labels: Record<string, string> } }
    for (let i = 0; i < deliveries; i++) made.push({ metadata: { ...metadata, name: `demo-${made.length}` } })
    return said
  }
  return { ask, made, removed }
}

async function auditOf(steps: Parameters<typeof clusterOf>[0]) {
  const cluster = clusterOf(steps)
  const ledger = new Ledger('a')
  for (const _ of steps) await ledger.create(cluster)
  return { found: await ledger.audit(cluster), cluster }
}

t.test('what was answered is there once; what may have been delivered may be there', async (t) => {
  const { found, cluster } = await auditOf([
    { deliveries: 1, said: answer(201) },
    { deliveries: 0, said: answer(502, 'none') },
    { deliveries: 1, said: answer(502, 'maybe') },
    { deliveries: 0, said: answer(502, 'maybe') },
    { deliveries: 1, said: answer(0) },
  ])
  t.same(found, [])
  t.same(
    cluster.removed,
    cluster.made.map(({ metadata }) => metadata.name),
    'what was made is taken away',
  )
})

t.test('what was lost, doubled, or delivered against what was said, is found', async (t) => {
  const { found } = await auditOf([
    { deliveries: 0, said: answer(201) },
    { deliveries: 2, said: answer(201) },
    { deliveries: 2, said: answer(502, 'maybe') },
    { deliveries: 1, said: answer(502, 'none') },
    { deliveries: 1, said: answer(201) },
  ])
  t.match(found, [/^call-1 .*lost/, /^call-2 .*2 times/, /^call-3 .*2 times/, /^call-4 was said not/])
  t.equal(found.length, 4)
})

t.test('a list that fails is no proof', async (t) => {
  const ledger = new Ledger('a')
  t.match(await ledger.audit({ ask: async () => answer(502, 'none', 'gone') }), [/cannot be listed: 502 gone/])
})
