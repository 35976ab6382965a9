import { rename } from 'node:fs/promises'
import { stringify } from 'yaml'
import { delay } from '../../../src/lib/signals.ts'
import type { GitopsGround } from './gitops-ground.ts'
import { configuration, soakLabel } from './pushed-sources.ts'

/** A fault of a push or of its application. */
export interface LieFault {
  readonly name: string
  /** the content of Git or the configuration cannot be applied at all, in any state of the cluster */
  readonly isTold?: true
  /** @returns repairs it */
  readonly inject: (ground: GitopsGround) => Promise<() => Promise<void>>
}

const branch = 'east'
const bad = 'maps/bad.yaml'
const map = (rest: object, metadata: object = {}) =>
  stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'bad', namespace: branch, ...metadata }, ...rest })

const policies = '/apis/admissionregistration.k8s.io/v1'
const policy = 'denied.soak.example.com'

/** Pushes a file that cannot be applied. */
function badFile(name: string, content: string): LieFault {
  return {
    name,
    isTold: true,
    inject: async (ground) => {
      await ground.pushed({ [bad]: content }, branch)
      return () => ground.pushed({ [bad]: null }, branch)
    },
  }
}

/** Replaces the agent's configuration. */
function badConfiguration(name: string, gitops: object): LieFault {
  return {
    name,
    isTold: true,
    inject: async (ground) => {
      await ground.configured(gitops)
      return () => ground.configured(configuration)
    },
  }
}

/** Limit until the API server applies a new policy. ms */
const policyMs = 30_000
const askAgainMs = 250

async function untilDenied({ admin }: GitopsGround): Promise<void> {
  const late = AbortSignal.timeout(policyMs)
  const path = `/api/v1/namespaces/${branch}/configmaps?dryRun=All`
  const body = { metadata: { name: 'tried', labels: { [soakLabel]: branch } } }
  while ((await admin.request(path, { method: 'POST', body })).status < 300) await delay(askAgainMs, late)
}

const [first, ...others] = configuration.gitops.manifest_projects

export const faults: readonly LieFault[] = [
  {
    name: 'the API server is busy',
    inject: async (ground) => {
      ground.front.isBusy = true
      await ground.sources.pushAll(ground.replicas)
      return async () => {
        ground.front.isBusy = false
      }
    },
  },
  {
    name: 'the API server is not reached',
    inject: async (ground) => {
      ground.front.isCut = true
      await ground.sources.pushAll(ground.replicas)
      return async () => {
        ground.front.isCut = false
      }
    },
  },
  {
    name: 'the cluster denies changes',
    inject: async (ground) => {
      await ground.admin.create(`${policies}/validatingadmissionpolicies`, {
        metadata: { name: policy },
        spec: {
          matchConstraints: {
            resourceRules: [
              { apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE', 'UPDATE'], resources: ['configmaps'] },
            ],
          },
          matchConditions: [{ name: 'own', expression: `'${soakLabel}' in object.metadata.?labels.orValue({})` }],
          validations: [{ expression: 'false', message: 'not today' }],
        },
      })
      await ground.admin.create(`${policies}/validatingadmissionpolicybindings`, {
        metadata: { name: policy },
        spec: { policyName: policy, validationActions: ['Deny'] },
      })
      await untilDenied(ground)
      await ground.sources.pushAll(ground.replicas)
      return async () => {
        for (const kind of ['validatingadmissionpolicybindings', 'validatingadmissionpolicies'])
          await ground.admin.request(`${policies}/${kind}/${policy}`, { method: 'DELETE' })
        await ground.sources.pushAll(ground.replicas)
      }
    },
  },
  badFile('an object is invalid', map({ data: { 'not a key': 'x' } })),
  badFile('an object has no namespace to be in', map({}, { namespace: 'nowhere' })),
  badFile('a file is no YAML', 'a: [\n'),
  badConfiguration('the agent’s file cannot be used', { gitops: { manifest_projects: 7 } }),
  badConfiguration('a source cannot be used', {
    gitops: { manifest_projects: [{ ...first, prune_limit: 'some' }, ...others] },
  }),
  badConfiguration('a ref is not there', {
    gitops: { manifest_projects: [{ ...first, ref: { branch: 'never' } }, ...others] },
  }),
  {
    name: 'the repository cannot be read',
    inject: async (ground) => {
      await ground.sources.pushAll([])
      await rename(ground.repository, `${ground.repository}.away`)
      return () => rename(`${ground.repository}.away`, ground.repository)
    },
  },
]
