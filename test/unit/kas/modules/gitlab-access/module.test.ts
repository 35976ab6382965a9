import t from 'tap'
import type { Directory } from '../../../../../src/kas/directory/directory.ts'
import { createGitlabAccess } from '../../../../../src/kas/modules/gitlab-access/module.ts'
import { gitlabAccessMethod } from '../../../../../src/proto/http/http-over-grpc.ts'
import { bareDirectory, fakeHost } from '../fake-host.ts'

t.test('without a GitLab there is no way to it', async (t) => {
  t.equal(createGitlabAccess(fakeHost()), undefined)
})

// wire: 8150.MakeRequest
t.test('with one there is', async (t) => {
  const directory: Directory = { ...bareDirectory, passToGitlab: async () => undefined }
  const { agentMethods, ...rest } = createGitlabAccess(fakeHost({ directory })) ?? {}
  t.match(agentMethods, { [gitlabAccessMethod]: { type: 'bidi_stream', patient: false } })
  t.strictSame(Object.keys(agentMethods ?? {}), [gitlabAccessMethod])
  t.strictSame(rest, { name: 'gitlab access' })
})
