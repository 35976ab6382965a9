import t, { type Test } from 'tap'
import { entriesOf, fieldsHash, ownEntry } from '../../../../src/agentk/modules/gitops/live/managed-fields.ts'
import { keyText } from '../../../../src/kubernetes/key.ts'
import { Ground, keyOf, skip } from './ground.ts'
import { Pod } from './pod.ts'

/** A pod is lost at any call of a correction, also of its comparison: the next round ends as if it had not been. */

const key = keyOf('ConfigMap', 'settings', 'shop')
const files = {
  'a.yaml': 'apiVersion: v1\nkind: ConfigMap\nmetadata: { name: settings }\ndata: { color: green }\n',
  'b.yaml': 'apiVersion: v1\nkind: ConfigMap\nmetadata: { name: other }\ndata: { color: green }\n',
}
/** `changed`: people change a field, and add one; `deleted`: they delete the object */
type Drift = 'changed' | 'deleted'

t.test('a correction that is killed at any of its calls', { skip, timeout: 300_000 }, async (t) => {
  const ground = await Ground.start(t)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  const deleted = async () => {
    const { status } = await ground.client.json('DELETE', ground.path(key))
    if (status !== 200) throw new Error(`${status}`)
  }

  /** @returns number of calls of one correction */
  const killedAtEachCall = async (
    t: Test,
    { projectId, drift, kind }: { projectId: bigint; drift: Drift; kind: 'unsent' | 'unanswered' },
  ): Promise<number> => {
    // `added_by`: two writes, the owners of added fields, then the apply; the objects are those of the case before
    const block = { inventory_policy: 'adopt_all', drift: { after: '0s', added_by: ['kubectl*'] } } as const
    const start = (fault?: { at: number; kind: typeof kind }) =>
      new Pod(ground, { projectId, block, ...(fault && { fault }) })
    const bring = (pod: Pod) => pod.bring(files, { judge: pod.followDrift().judge })
    await start().bring(files)
    for (let at = 1; ; at++) {
      const where = `${drift}, ${kind} ${at}`
      const note = `${kind}-${at}`
      const change = { data: { color: 'red', added: 'yes' }, metadata: { labels: { note } } }
      if (drift === 'deleted') await deleted()
      else await ground.merge(key, change, `kubectl-${at}`) // one manager would be left alone after three corrections
      const pod = start({ at, kind })
      await bring(pod).catch((error: unknown) => {
        if (!pod.isKilled) throw error
      })
      await pod.landed()
      const next = start()
      const { ends } = await bring(next)
      const live = await ground.get(key)
      t.strictSame(live?.data, { color: 'green' }, `${where}: it is as in Git`)
      t.equal(live.metadata.labels.note, drift === 'changed' ? note : undefined, `${where}: a label of people stays`)
      t.notOk(ends.settings?.kind === 'failed', where)
      const entry = (await next.entries()).get(keyText(key))
      const own = ownEntry(entriesOf(live), next.options.manager)
      t.match(entry, { state: 'applied', uid: live.metadata.uid, fields: fieldsHash(own?.fieldsV1 ?? {}) }, where)
      t.equal(entry?.time ?? '', String(own?.time ?? ''), `${where}: changes from now on are noticed`)
      t.ok((entry?.drift?.corrections?.length ?? 0) <= 1, `${where}: it counts once at the most`)
      t.notOk(entry?.drift?.since, `${where}: it does not drift any more`)
      if (!pod.isKilled) return at - 1
    }
  }

  const cases = [
    { projectId: 401n, drift: 'changed', kind: 'unsent' },
    { projectId: 402n, drift: 'changed', kind: 'unanswered' },
    { projectId: 403n, drift: 'deleted', kind: 'unsent' },
    { projectId: 404n, drift: 'deleted', kind: 'unanswered' },
  ] as const
  for (const one of cases) {
    const place = one.kind === 'unsent' ? 'before it is sent' : 'before its answer'
    await t.test(`${one.drift}: ${place}`, async (t) => {
      const calls = await killedAtEachCall(t, one)
      t.ok(calls > 5, `${calls} calls`)
    })
  }
})
