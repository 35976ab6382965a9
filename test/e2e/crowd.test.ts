import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { Agent, type RequestOptions, request } from 'node:https'
import t from 'tap'
import { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { execCall } from '../support/exec-call.ts'
import { deployment } from '../support/kubectl-operations.ts'
import { assets, skip, throughStack } from '../support/kubectl-stack.ts'
import { Processes } from '../support/processes.ts'
import { Stack } from '../support/stack.ts'
import { bearerOf } from '../support/stack-directory.ts'

/** Many at once through one agentk, which keeps two idle tunnels until they are asked for. */

t.test('many calls at once', { skip, timeout: 200_000 }, async (t) => {
  const processes = await Processes.start(t)
  const controlPlane = new ControlPlane({ assets, parts: 'all' })
  t.teardown(() => controlPlane.stop())
  await controlPlane.start()
  const stack = await Stack.start(processes, { agentKubeconfig: controlPlane.kubeconfig })
  await stack.startAgentk()
  await stack.connected()
  const { kubectl } = await throughStack('crowd', stack, { processes, controlPlane })
  const ca = await readFile(stack.caFile, 'utf8')
  const token = bearerOf('agent')
  const agent = new Agent({ ca, keepAlive: false })
  t.teardown(() => agent.destroy())
  const open = async (path: string, options: RequestOptions = {}): Promise<IncomingMessage> => {
    const url = `${stack.kubernetesUrl}/api/v1/namespaces/crowd/${path}`
    const sent = request(url, { agent, headers: { authorization: `Bearer ${token}` }, ...options })
    const answered = once(sent, 'response')
    sent.end()
    const [answer] = await answered
    return answer
  }

  await t.test('500 calls against two idle tunnels', async (t) => {
    const statuses = await Promise.all(
      Array.from({ length: 500 }, async () => {
        const answer = await open('configmaps')
        await once(answer.resume(), 'end')
        return answer.statusCode
      }),
    )
    t.equal(statuses.filter((status) => status === 200).length, 500)
  })

  await t.test('200 watches and 50 execs', async (t) => {
    await kubectl.ok(['apply', '-f', '-'], { stdin: deployment(1) })
    await kubectl.ok(['rollout', 'status', 'deployment/web'])
    const pod = await kubectl.ok(['get', 'pods', '--output=jsonpath={.items[0].metadata.name}'])
    const stop = new AbortController()
    const watches = await Promise.all(
      Array.from({ length: 200 }, () => open('configmaps?watch=1', { signal: stop.signal })),
    )
    t.equal(watches.filter(({ statusCode }) => statusCode === 200).length, 200)
    const seen = watches.map((watch) => sees(watch, '"name":"news"'))
    const stdin = randomBytes(20_000)
    const call = { server: stack.kubernetesUrl, ca, token, namespace: 'crowd', pod, command: ['cat'], stdin }
    const execs = Array.from({ length: 50 }, () => execCall(call))
    await kubectl.ok(['create', 'configmap', 'news'])
    const outputs = await Promise.all(execs)
    t.equal(outputs.filter((output) => output.equals(stdin)).length, 50, 'each exec has its own output')
    await Promise.all(seen)
    t.pass('each watch saw the change')
    for (const watch of watches) watch.on('error', () => undefined) // their end is ours
    stop.abort()
  })
})

/** Until a watch has brought an event that holds `text`. */
async function sees(watch: IncomingMessage, text: string): Promise<void> {
  let all = ''
  return new Promise((resolve, reject) => {
    watch.setEncoding('utf8')
    watch.on('data', (chunk: string) => {
      all += chunk
      if (all.includes(text)) resolve()
    })
    watch.once('end', () => reject(new Error(`the watch ended: ${all}`)))
    watch.once('error', reject)
  })
}
