import { randomBytes } from 'node:crypto'

/** The simulated kubelet's answers for every pod, and its node. */

/** The one node of the cluster. */
export const nodeName = 'node-0'

export const node = {
  apiVersion: 'v1',
  kind: 'Node',
  metadata: {
    name: nodeName,
    annotations: { 'kwok.x-k8s.io/node': 'fake' },
    labels: { 'kubernetes.io/hostname': nodeName, 'kubernetes.io/os': 'linux', 'kubernetes.io/arch': 'amd64' },
  },
}

/** Returns a random name, since kwok runs a command for every client that can name its container. */
export const newContainer = () => `c-${randomBytes(16).toString('hex')}`

export interface KubeletRules {
  /** the only container with rules, for all pods: `newContainer` */
  container: string
  /** working folder of commands of `exec` and `cp`, on this machine */
  podFolder: string
  /** file that `logs` and `attach` follow: lines in CRI form */
  logFile: string
  /** port of loopback for every `port-forward` */
  forwardPort: number
  /** environment of commands of `exec` */
  environment: Readonly<Record<string, string>>
}

/**
 * Returns kwok's configuration: one rule a kind, for the one container, of all pods. JSON documents, which are YAML
 * documents.
 */
export function kubeletConfiguration(rules: KubeletRules): string {
  const { container, podFolder, logFile, forwardPort } = rules
  const containers = [container]
  const envs = Object.entries(rules.environment).map(([name, value]) => ({ name, value }))
  const documents = [
    rule('ClusterExec', { execs: [{ containers, local: { workDir: podFolder, envs } }] }),
    rule('ClusterLogs', { logs: [{ containers, logsFile: logFile, previousLogsFile: logFile, follow: true }] }),
    rule('ClusterAttach', { attaches: [{ containers, logsFile: logFile }] }),
    rule('ClusterPortForward', { forwards: [{ target: { address: '127.0.0.1', port: forwardPort } }] }),
  ]
  return documents.map((document) => JSON.stringify(document)).join('\n---\n')
}

const rule = (kind: string, spec: object) => ({
  apiVersion: 'kwok.x-k8s.io/v1alpha1',
  kind,
  metadata: { name: 'every-pod' },
  spec,
})

/** Returns one line of a container's log: time, stream, whole line. */
export const logLine = (line: string, at = new Date()) => `${at.toISOString()} stdout F ${line}\n`
