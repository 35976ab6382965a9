import t from 'tap'
import { eventually } from '../../support/eventually.ts'
import { startWholeReplicas } from '../../support/gitlab/whole-replicas.ts'
import { followProjects } from './reconcile-stream.ts'

const verify = '/internal/kubernetes/verify_project_access'

t.test('the stream ends with OK when its replica leaves, with the reason when the token is revoked', async (t) => {
  const { gitlab, replicas, tellPush } = await startWholeReplicas(t, 1, { infoTtl: '300ms' })
  const [replica] = replicas
  if (!replica) throw new Error('one was started')
  const { next, stream } = followProjects(await replica.dial(), ['platform/clusters'])
  await stream.metadata
  gitlab.fault = { kind: 'status', status: 500, path: verify }
  await tellPush('platform/clusters')
  await eventually(() => gitlab.of(verify).length > 0 || Promise.reject(new Error('not asked yet')))
  gitlab.fault = undefined
  t.equal((await next()).path, 'platform/clusters', 'asked again once GitLab is back')
  const [known] = gitlab.world.agents
  if (known) known.tokens = ['glagent-new']
  t.match((await stream.done).error, { grpcCode: 16, message: /^unauthenticated: GitLab/ })
  const other = followProjects(await replica.dial('glagent-new'), ['platform/clusters'], 'glagent-new')
  await other.stream.metadata
  const stopping = replica.app.stop()
  t.equal((await other.stream.done).error, undefined)
  await stopping
})
