import { randomBytes } from 'node:crypto'

/** What the simulated kubelet answers for every pod, and its node. */

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

/** kwok runs a command for whoever can name its container: so there is one alone, and nobody else can guess it. */
export const newContainer = () => `c-${randomBytes(16).toString('hex')}`

export interface KubeletRules {
  /** the one container that there are rules for, of whichever pod: `newContainer` */
  container: string
  /** where commands of `exec` and `cp` run, on this machine */
  podFolder: string
  /** what `logs` and `attach` follow: lines in CRI form */
  logFile: string
  /** loopback port that every `port-forward` reaches */
  forwardPort: number
  /** for commands of `exec` */
  environment: Readonly<Record<string, string>>
}

/** kwok's configuration: one rule a kind, for the one container, of all pods. JSON documents, which are YAML documents. */
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

/** One line of a container's log: time, stream, whole line. */
export const logLine = (line: string, at = new Date()) => `${at.toISOString()} stdout F ${line}\n`
