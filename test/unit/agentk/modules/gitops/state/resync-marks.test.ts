import t from 'tap'
import { ResyncMarks } from '../../../../../../src/agentk/modules/gitops/state/resync-marks.ts'

const path = '/apis/agent.gitlab.com/v1/namespaces/gitops/gitsyncs/42-7'
const object = (annotations: object) => ({ metadata: { annotations } })
const [resync, resynced] = ['agent.gitlab.com/resync', 'agent.gitlab.com/resynced']

t.test('the mark says what was done; without one an earlier version has done it', async (t) => {
  t.equal(new ResyncMarks().read(path, object({ [resync]: 'b', [resynced]: 'a' })), 'a')
  t.equal(new ResyncMarks().read(path, object({ [resync]: 'b', [resynced]: '' })), '')
  t.equal(new ResyncMarks().read(path, object({ [resync]: 'b' })), 'b')
  t.equal(new ResyncMarks().read(path, { kind: 'Status', code: 404 }), '', 'the object does not exist yet')
})

t.test('what this pod has done counts before the object has its mark', async (t) => {
  const marks = new ResyncMarks()
  marks.read(path, object({ [resync]: 'b', [resynced]: 'a' }))
  marks.done(path, 'b')
  t.equal(marks.read(path, object({ [resync]: 'b', [resynced]: 'a' })), 'b')
  t.equal(marks.isDue(path), true)
  const written: unknown[] = []
  await t.rejects(
    marks.write(path, async () => {
      throw new Error('busy')
    }),
    /busy/,
  )
  t.equal(marks.isDue(path), true, 'a write that failed is due again')
  await marks.write(path, async (annotations) => {
    written.push(annotations)
    marks.done(path, 'c')
  })
  t.equal(marks.isDue(path), true, 'one more was done meanwhile')
  await marks.write(path, async (annotations) => void written.push(annotations))
  t.equal(marks.isDue(path), false)
  t.strictSame(written, [{ [resynced]: 'b' }, { [resynced]: 'c' }])
  marks.forget(path)
  t.equal(marks.read(path, object({})), '')
})
