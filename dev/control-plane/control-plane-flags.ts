/** The flags of each program; files are relative to the folder of the control plane, where all of them run. */

import { issuer } from './service-account.ts'

/** a socket in the folder, so that no other user can reach the store; etcd requires the form of a host and a port */
export const etcdSocket = 'etcd.sock:1'
const etcdUrl = `unix://${etcdSocket}`

export const etcdFlags = (): string[] => [
  '--data-dir=etcd',
  '--unsafe-no-fsync',
  `--listen-client-urls=${etcdUrl}`,
  `--advertise-client-urls=${etcdUrl}`,
  '--listen-peer-urls=unix://etcd-peers.sock:1',
]

export interface ApiServerFlags {
  port: number
  /** share of HTTP/2 requests that are answered together with GOAWAY: 0 to 0.02 */
  goawayChance?: number | undefined
  /** file of all requests, one JSON object a line */
  auditLogFile?: string | undefined
  /** added at the end, where they override others */
  flags?: readonly string[] | undefined
}

export const apiServerFlags = (options: ApiServerFlags): string[] => [
  `--etcd-servers=${etcdUrl}`,
  '--bind-address=127.0.0.1',
  '--advertise-address=127.0.0.1',
  `--secure-port=${options.port}`,
  '--endpoint-reconciler-type=none', // 127.0.0.1 is not allowed as an endpoint of the service `kubernetes`
  '--tls-cert-file=serving.crt',
  '--tls-private-key-file=serving.key',
  '--client-ca-file=ca.crt',
  '--authorization-mode=RBAC',
  '--service-cluster-ip-range=10.0.0.0/24',
  `--service-account-issuer=${issuer}`,
  '--service-account-key-file=accounts.pub',
  '--service-account-signing-key-file=accounts.key',
  '--kubelet-preferred-address-types=InternalIP',
  '--kubelet-certificate-authority=ca.crt',
  '--kubelet-client-certificate=kubelet-client.crt',
  '--kubelet-client-key=kubelet-client.key',
  ...(options.goawayChance ? [`--goaway-chance=${options.goawayChance}`] : []),
  ...(options.auditLogFile ? [`--audit-log-path=${options.auditLogFile}`, '--audit-policy-file=audit.json'] : []),
  ...(options.flags ?? []),
]

/** @param flags - added at the end, where they override others */
export const controllerManagerFlags = (flags: readonly string[] = []): string[] => [
  '--kubeconfig=controllers.kubeconfig',
  '--leader-elect=false',
  '--secure-port=0',
  '--service-account-private-key-file=accounts.key',
  '--root-ca-file=ca.crt',
  '--use-service-account-credentials', // otherwise it lacks rights
  '--kube-api-qps=500', // its start takes 3 s more at the default
  '--kube-api-burst=500',
  '--flex-volume-plugin-dir=flex', // the default is under /usr
  '--node-monitor-grace-period=24h', // kwok does not renew leases: after that its pods are unavailable
  ...flags,
]

export const schedulerFlags = (): string[] => [
  '--kubeconfig=scheduler.kubeconfig',
  '--leader-elect=false',
  '--secure-port=0',
]

export interface KubeletFlags {
  /** port of its front, which the Node names */
  frontPort: number
  /** its own port */
  port: number
}

export const kubeletFlags = ({ frontPort, port }: KubeletFlags): string[] => [
  '--kubeconfig=admin.kubeconfig',
  '--config=kwok.yaml',
  '--manage-all-nodes=true',
  '--manage-nodes-with-annotation-selector=',
  '--cidr=198.18.0.0/16', // for tests of networks: routed nowhere
  '--node-ip=127.0.0.1',
  `--node-port=${frontPort}`,
  `--server-address=127.0.0.1:${port}`, // it authenticates nobody: only loopback
  '--tls-cert-file=serving.crt',
  '--tls-private-key-file=serving.key',
]
