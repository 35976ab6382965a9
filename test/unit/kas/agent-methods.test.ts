import { Registry } from 'prom-client'
import t from 'tap'
import { type AgentMethodsComponents, agentMethods, methodTypes } from '../../../src/kas/agent-methods.ts'
import { noUsage } from '../../../src/kas/directory/usage.ts'
import { reconcileProjectsMethod } from '../../../src/kas/modules/flux/reconcile-projects.ts'
import { gitlabAccessMethod } from '../../../src/proto/http/http-over-grpc.ts'
import { connectMethod } from '../../../src/proto/reverse-tunnel.ts'
import { capturedLog } from '../../support/captured-log.ts'

const agentByToken = () => Promise.reject(new Error('not asked here'))

function served(more: Partial<AgentMethodsComponents>) {
  const components = {
    directory: { agentByToken },
    configurations: {} as AgentMethodsComponents['configurations'],
    connectedAgents: {} as AgentMethodsComponents['connectedAgents'],
    usage: noUsage,
    recentPushes: {} as AgentMethodsComponents['recentPushes'],
    register: new Registry(),
    log: capturedLog().log,
    ...more,
  }
  return agentMethods(components, { gitlabExternalUrl: '', pollMs: 1 })
}

t.test('without a GitLab there is neither a way to it nor news of its pushes', async (t) => {
  const methods = served({})
  t.notOk(reconcileProjectsMethod in methods)
  t.notOk(gitlabAccessMethod in methods)
  t.notOk(gitlabAccessMethod in methodTypes(methods), 'no metric of what is not there')
})

// wire: 8150.ReconcileProjects, 8150.MakeRequest
t.test('with one there are both', async (t) => {
  const directory = { agentByToken, readsProject: async () => true }
  const methods = served({ directory, passToGitlab: async () => undefined })
  t.match(methods, { [reconcileProjectsMethod]: { streaming: true }, [gitlabAccessMethod]: { streaming: false } })
  t.match(methodTypes(methods), {
    [connectMethod]: 'bidi_stream',
    [reconcileProjectsMethod]: 'server_stream',
    [gitlabAccessMethod]: 'bidi_stream',
  })
})
