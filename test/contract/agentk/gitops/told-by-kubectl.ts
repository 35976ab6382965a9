import type { ObjectTree } from '../../../../src/agentk/modules/gitops/manifests/manifest.ts'
import type { ObjectKey } from '../../../../src/kubernetes/key.ts'
import type { KubectlInput } from '../../../support/kubectl.ts'
import { type Changers, edited, json, type Live, type ToldChange, web, withImage, withRestart } from './told-changes.ts'
import { ruleOf, type ToldKind } from './told-manifests.ts'

/** Changes by kubectl. */

const itemA = `${web}.env[name="A"] {"name":"A","value":"1"} -> - by unknown`
const itemB = `${web}.env[name="B"] {"name":"B","value":"2"} -> - by unknown`
const marks = ['annotations.agent.gitlab.com/digest "DIGEST"', 'annotations.config.k8s.io/owning-inventory "SOURCE"']
const lostMarks = [...marks, 'labels.agent.gitlab.com/inventory "SOURCE"'].map(
  (mark) => `missing .metadata.${mark} -> - by unknown`,
)
const subject = (name: string) => `{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"${name}"}`

/** @param line - with NAME in place of the object's; no word has a space */
function command(
  line: string,
  kind: ToldKind,
  fields: readonly string[],
  more: Partial<Pick<ToldChange, 'about' | 'git'>> & {
    readonly environment?: KubectlInput['environment']
    /** returns the manifest on the standard input */
    readonly stdin?: (object: ObjectTree, by: Changers, key: ObjectKey) => ObjectTree | Promise<ObjectTree>
    /** comes before the command */
    readonly prepare?: (by: Changers, key: ObjectKey) => Promise<unknown>
  } = {},
): ToldChange {
  const { environment, stdin, prepare, about, git } = more
  return {
    about: `kubectl ${line.replace(/ ?\/?NAME/, '')}, ${about ?? kind}`,
    kind,
    fields,
    ...(git && { git }),
    make: async (by, key, object) => {
      await prepare?.(by, key)
      const input = stdin && { stdin: json(await stdin(object, by, key)) }
      const args = line.split(' ').map((word) => word.replace('NAME', key.name))
      await by.kubectl.ok(args, { ...(environment && { environment }), ...input })
    },
  }
}

function edit(kind: ToldKind, script: string, field: string): ToldChange {
  const environment = { KUBE_EDITOR: `sed -i '${script}'` }
  return command(`edit ${kind.toLowerCase()} NAME`, kind, [field], { environment })
}

const fromLive =
  (change: (copy: Live) => void) =>
  async (_: ObjectTree, { ground }: Changers, key: ObjectKey) =>
    edited(await ground.get(key), change)
const patchOf = (...operations: readonly object[]) => `-p ${json(operations)}`

/** Creates the ReplicaSets that the controller of Deployments would have made for two revisions. */
async function createRevisions({ ground }: Changers, key: ObjectKey): Promise<void> {
  const { metadata, spec } = await ground.get(key)
  const owner = { apiVersion: 'apps/v1', kind: 'Deployment', name: key.name, uid: metadata.uid, controller: true }
  for (const [revision, image] of ['nginx:0', 'nginx:1'].entries()) {
    const name = `${key.name}-${revision}`
    const labels = { ...spec.template.metadata.labels, 'pod-template-hash': String(revision) }
    const template = edited(spec.template, (copy) => {
      copy.metadata.labels = labels
      copy.spec.containers[0].image = image
    })
    const annotations = {
      ...metadata.annotations,
      'agent.gitlab.com/digest': 'of an earlier commit',
      'deployment.kubernetes.io/revision': String(revision + 1),
    }
    await ground.create(
      { ...key, kind: 'ReplicaSet', name },
      {
        metadata: { name, labels, annotations, ownerReferences: [owner] },
        spec: { replicas: 0, selector: { matchLabels: labels }, template },
      },
      'kube-controller-manager',
    )
  }
}

const byEdit = 'by kubectl-edit (Update)'
const bySet = 'by kubectl-set (Update)'
const byPatch = 'by kubectl-patch (Update)'
const byScale = 'by kubectl (Update)'

export const changesByKubectl: readonly ToldChange[] = [
  edit('Deployment', 's/nginx:1/nginx:2/', `changed ${web}.image "nginx:1" -> "nginx:2" ${byEdit}`),
  edit('ConfigMap', 's/green/red/', `changed .data.color "green" -> "red" ${byEdit}`),
  edit('Secret', 's/aW4tZ2l0/aW4tY2x1c3Rlcg==/', `changed .data…[password] *** -> *** ${byEdit}`),
  edit('Widget', 's/red/green/', `changed .spec.color "red" -> "green" ${byEdit}`),
  edit('StatefulSet', '/name: B/,+1d', `missing ${itemB}`),
  command('set image deployment/NAME web=nginx:2', 'Deployment', [
    `changed ${web}.image "nginx:1" -> "nginx:2" ${bySet}`,
  ]),
  command(
    'set image deployment/NAME web=nginx:2',
    'Deployment',
    [`changed ${web}.image "nginx:1" -> "nginx:2" ${bySet}`],
    {
      about: 'Deployment where Git has the time of a restart',
      git: withRestart,
    },
  ),
  command('set image cronjob/NAME web=nginx:2', 'CronJob', [
    `changed ${web.replace('.spec', '.spec.jobTemplate.spec')}.image "nginx:1" -> "nginx:2" ${bySet}`,
  ]),
  command('set env deployment/NAME A=5', 'Deployment', [`changed ${web}.env[name="A"].value "1" -> "5" ${bySet}`]),
  command('set env statefulset/NAME B-', 'StatefulSet', [`missing ${itemB}`]),
  command('set resources daemonset/NAME --limits=cpu=2', 'DaemonSet', [
    `changed ${web}.resources.limits.cpu "1" -> "2" ${bySet}`,
  ]),
  command('set selector service/NAME app=other', 'Service', [
    `changed .spec.selector {"app":"NAME"} -> {"app":"other"} ${bySet}`,
  ]),
  command('set subject rolebinding/NAME --user=bob', 'RoleBinding', [
    `changed .subjects [${subject('ada')}] -> [${subject('ada')},${subject('bob')}] ${bySet}`,
  ]),
  command('set serviceaccount deployment/NAME other', 'Deployment', [
    `changed .spec.template.spec.serviceAccountName "web" -> "other" ${bySet}`,
    `added .spec.template.spec.serviceAccount - -> "other" ${bySet}`, // its other name, which the API server sets, too
  ]),
  command(
    `patch deployment NAME -p ${json({ spec: { template: { spec: { containers: [{ name: 'web', args: ['c'] }] } } } })}`,
    'Deployment',
    [`changed ${web}.args ["a","b"] -> ["c"] ${byPatch}`],
  ),
  command(`patch configmap NAME --type=merge -p ${json({ data: { color: null } })}`, 'ConfigMap', [
    'missing .data.color "green" -> - by unknown',
  ]),
  command(
    `patch deployment NAME --type=json ${patchOf({ op: 'remove', path: '/spec/template/spec/containers/0/env/0' })}`,
    'Deployment',
    [`missing ${itemA}`],
  ),
  command(
    `patch daemonset NAME --type=json ${patchOf({
      op: 'move',
      from: '/spec/template/spec/containers/0/env/0',
      path: '/spec/template/spec/containers/0/env/1',
    })}`,
    'DaemonSet',
    [`reordered ${web}.env [{"name":"A"},{"name":"B"}] -> [{"name":"B"},{"name":"A"}] by unknown`],
  ),
  command(
    `patch ingress NAME --type=json ${patchOf({ op: 'replace', path: '/spec/rules/0/host', value: 'other.example' })}`,
    'Ingress',
    [`changed .spec.rules [${json(ruleOf('web.example'))}] -> [${json(ruleOf('other.example'))}] ${byPatch}`],
  ),
  command('scale deployment NAME --replicas=5', 'Deployment', [`changed .spec.replicas 2 -> 5 ${byScale}`]),
  // a Scale leaves 0 out, so that nobody owns it
  command('scale statefulset NAME --replicas=0', 'StatefulSet', ['changed .spec.replicas 2 -> 0 by unknown']),
  command(
    `patch deployment NAME --subresource=scale --type=merge -p ${json({ spec: { replicas: 4 } })}`,
    'Deployment',
    [`changed .spec.replicas 2 -> 4 ${byPatch}`],
  ),
  command('label configmap NAME team=other --overwrite', 'ConfigMap', [
    'changed .metadata.labels.team "shop" -> "other" by kubectl-label (Update)',
  ]),
  command('label service NAME team-', 'Service', ['missing .metadata.labels.team "shop" -> - by unknown']),
  command('label widget NAME agent.gitlab.com/inventory=42-9 --overwrite', 'Widget', [
    'changed .metadata.labels.agent.gitlab.com/inventory "SOURCE" -> "42-9" by kubectl-label (Update)',
  ]),
  command('label secret NAME agent.gitlab.com/inventory-', 'Secret', [
    'missing .metadata.labels.agent.gitlab.com/inventory "SOURCE" -> - by unknown',
  ]),
  command('annotate ingress NAME note=hand --overwrite', 'Ingress', [
    'changed .metadata.annotations.note "git" -> "hand" by kubectl-annotate (Update)',
  ]),
  command(
    'replace -f -',
    'CronJob',
    ['changed .spec.schedule "0 0 * * *" -> "0 1 * * *" by kubectl-replace (Update)'],
    {
      about: 'CronJob as kubectl has read it',
      stdin: fromLive((copy) => {
        copy.spec.schedule = '0 1 * * *'
      }),
    },
  ),
  command(
    'replace -f -',
    'ConfigMap',
    ['changed .data.color "green" -> "red" by kubectl-replace (Update)', ...lostMarks],
    {
      about: 'ConfigMap of a file',
      stdin: (object) =>
        edited(object, (copy) => {
          copy.data.color = 'red'
        }),
    },
  ),
  command(
    'apply -f -',
    'Deployment',
    [`changed ${web}.image "nginx:1" -> "nginx:3" by kubectl-client-side-apply (Update)`],
    { stdin: (object) => edited(object, withImage('nginx:3')) },
  ),
  command('apply -f -', 'Widget', ['changed .spec.color "red" -> "blue" by kubectl-client-side-apply (Update)'], {
    stdin: (object) =>
      edited(object, (copy) => {
        copy.spec.color = 'blue'
      }),
  }),
  command(
    'apply --server-side --force-conflicts -f -',
    'Deployment',
    ['changed .spec.replicas 2 -> 7 by kubectl (Apply)'],
    {
      stdin: (object) =>
        edited(object, (copy) => {
          copy.spec.replicas = 7
        }),
    },
  ),
  command(
    'apply --server-side -f -',
    'Deployment',
    ['added .spec.template.spec.nodeSelector - -> {"disk":"ssd"} by kubectl (Apply)'],
    {
      stdin: (object) =>
        edited(object, (copy) => {
          copy.spec.template.spec.nodeSelector = { disk: 'ssd' }
        }),
    },
  ),
  command(
    'rollout undo deployment/NAME',
    'Deployment',
    [
      `changed ${web}.image "nginx:1" -> "nginx:0" by kubectl (Update)`,
      'changed .metadata.annotations.agent.gitlab.com/digest "DIGEST" -> "of an earlier commit" by kubectl (Update)',
    ],
    { prepare: createRevisions },
  ),
  command('rollout pause deployment/NAME', 'Deployment', ['added .spec.paused - -> true by kubectl-rollout (Update)']),
  command('delete configmap NAME', 'ConfigMap', ['gone all - -> - by unknown']),
  command('delete service NAME', 'Service', ['gone all - -> - by unknown']),
  command('delete ingress NAME --now', 'Ingress', ['gone all - -> - by unknown']),
  command('replace --force -f -', 'Widget', ['changed .metadata.uid "UID" -> "UID" by unknown'], {
    about: 'Widget as kubectl has read it',
    stdin: fromLive(() => undefined),
  }),
  command(
    'replace --force -f -',
    'ConfigMap',
    [
      'changed .data.color "green" -> "red" by kubectl-replace (Update)',
      'changed .metadata.uid "UID" -> "UID" by unknown',
      ...lostMarks,
    ],
    {
      about: 'ConfigMap of a file',
      stdin: (object) =>
        edited(object, (copy) => {
          copy.data.color = 'red'
        }),
    },
  ),
]
