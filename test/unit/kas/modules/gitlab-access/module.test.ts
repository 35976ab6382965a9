import t from 'tap'
import { createGitlabAccess } from '../../../../../src/kas/modules/gitlab-access/module.ts'
import { gitlabAccessMethod } from '../../../../../src/proto/http/http-over-grpc.ts'
import { bareGitlab, fakeHost } from '../../../../support/fake-host.ts'

t.test('without a GitLab there is no way to it', async (t) => {
  t.equal(createGitlabAccess(fakeHost()), undefined)
})

// wire: 8150.MakeRequest
t.test('with one there is', async (t) => {
  const { agentMethods, ...rest } = createGitlabAccess(fakeHost({ gitlab: bareGitlab })) ?? {}
  t.match(agentMethods, { [gitlabAccessMethod]: { type: 'bidi_stream', patient: false } })
  t.strictSame(Object.keys(agentMethods ?? {}), [gitlabAccessMethod])
  t.strictSame(rest, { name: 'gitlab access' })
})
