import type { ObjectKey } from '../../../../src/kubernetes/key.ts'
import { type Changers, edited, json, type ToldChange, web, withImage } from './told-changes.ts'

/** Changes by others than kubectl. */

interface Sent {
  readonly userAgent: string
  readonly method: 'PUT' | 'PATCH'
  /** a whole object, or a strategic merge patch */
  readonly body: object
  /** absent: the API server takes the name of the field manager from the user agent */
  readonly manager?: string
}

/** Sends a change as a program does. */
async function send({ ground }: Changers, key: ObjectKey, { userAgent, method, body, manager }: Sent): Promise<void> {
  const contentType = method === 'PUT' ? 'application/json' : 'application/strategic-merge-patch+json'
  const path = `${ground.path(key)}${manager === undefined ? '' : `?fieldManager=${manager}`}`
  const options = { contentType, headers: ['User-Agent', userAgent] }
  const answer = await ground.client.json(method, path, body, undefined, options)
  if (answer.status !== 200) throw new Error(`${key.name}: ${answer.status} ${json(answer.body)}`)
}

async function applied({ ground }: Changers, key: ObjectKey, manager: string, spec: object): Promise<number> {
  const { apiVersion, kind } = await ground.get(key)
  const body = { apiVersion, kind, metadata: { name: key.name, namespace: key.namespace }, spec }
  const options = { contentType: 'application/apply-patch+yaml' }
  const path = `${ground.path(key)}?fieldManager=${manager}`
  return (await ground.client.json('PATCH', path, body, undefined, options)).status
}

const inWeb = (fields: object) => ({ spec: { template: { spec: { containers: [{ name: 'web', ...fields }] } } } })
const library = '(linux/amd64) kubernetes/9ba1d4e'

export const changesByOthers: readonly ToldChange[] = [
  {
    about: 'Update of a controller, whose user agent names it',
    kind: 'Deployment',
    fields: [`changed ${web}.image "nginx:1" -> "nginx:4" by shop-controller (Update)`],
    make: async (by, key) => {
      const body = edited(await by.ground.get(key), withImage('nginx:4'))
      await send(by, key, { userAgent: `shop-controller/v1.4.0 ${library}`, method: 'PUT', body })
    },
  },
  {
    about: 'strategic merge patch',
    kind: 'StatefulSet',
    fields: [`changed ${web}.env[name="A"].value "1" -> "7" by tool (Update)`],
    make: ({ drift }, key) => drift.patch(key, 'strategic', 'tool', inWeb({ env: [{ name: 'A', value: '7' }] })),
  },
  {
    about: 'JSON patch',
    kind: 'Service',
    fields: ['changed .spec.ports[port=80,protocol="TCP"].name "a" -> "x" by tool (Update)'],
    make: ({ drift }, key) =>
      drift.patch(key, 'json', 'tool', [{ op: 'replace', path: '/spec/ports/0/name', value: 'x' }]),
  },
  {
    about: 'merge patch',
    kind: 'Widget',
    fields: ['changed .spec.size 1 -> 2 by tool (Update)'],
    make: ({ drift }, key) => drift.patch(key, 'merge', 'tool', { spec: { size: 2 } }),
  },
  {
    about: 'apply of another manager, by force',
    kind: 'Deployment',
    fields: ['changed .spec.replicas 2 -> 9 by argocd-controller (Apply)'],
    make: ({ ground }, key) => {
      const metadata = { name: key.name, namespace: key.namespace }
      const object = { apiVersion: 'apps/v1', kind: 'Deployment', metadata, spec: { replicas: 9 } }
      return ground.apply(key, object, 'argocd-controller')
    },
  },
  {
    about: 'apply of another manager, without force: it gets a conflict, then adds a field',
    kind: 'Deployment',
    fields: ['added .spec.minReadySeconds - -> 3 by kubectl-deploy (Apply)'],
    make: async (by, key) => {
      const refused = await applied(by, key, 'kubectl-deploy', { replicas: 9 })
      const added = await applied(by, key, 'kubectl-deploy', { minReadySeconds: 3 })
      if (refused !== 409 || added !== 200) throw new Error(`answers: ${refused}, ${added}`)
    },
  },
  {
    about: 'user agent of k9s',
    kind: 'DaemonSet',
    fields: [`changed ${web}.image "nginx:1" -> "nginx:5" by k9s (Update)`],
    make: (by, key) =>
      send(by, key, { userAgent: `k9s/v0.50.16 ${library}`, method: 'PATCH', body: inWeb({ image: 'nginx:5' }) }),
  },
  {
    about: 'user agent of Headlamp',
    kind: 'CronJob',
    fields: ['changed .spec.schedule "0 0 * * *" -> "0 2 * * *" by Mozilla (Update)'],
    make: async (by, key) => {
      const body = edited(await by.ground.get(key), (copy) => {
        copy.spec.schedule = '0 2 * * *'
      })
      const userAgent = 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Headlamp/0.38.0'
      await send(by, key, { userAgent, method: 'PUT', body })
    },
  },
  {
    about: 'upgrade of helm',
    kind: 'StatefulSet',
    fields: [`changed ${web}.image "nginx:1" -> "nginx:6" by helm (Update)`],
    make: (by, key) =>
      send(by, key, {
        userAgent: 'Helm/3.19.0',
        method: 'PATCH',
        body: inWeb({ image: 'nginx:6' }),
        manager: 'helm',
      }),
  },
  {
    about: 'controller that changes our annotation through `status`',
    kind: 'Deployment',
    fields: ['changed .metadata.annotations.agent.gitlab.com/digest "DIGEST" -> "x" by odd (Update)'],
    make: ({ ground }, key) =>
      ground.merge(key, { metadata: { annotations: { 'agent.gitlab.com/digest': 'x' } } }, 'odd', 'status'),
  },
]
