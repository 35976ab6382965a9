import { readFile } from 'node:fs/promises'
import type { Test } from 'tap'
import { Authority } from '../../../dev/certificates.ts'
import type { ControlPlane } from '../../../dev/control-plane/control-plane.ts'
import { DnsServer } from '../../contract/discovery/dns-server.ts'
import type { FrontFault } from '../../contract/discovery/faulting-front.ts'
import { endpointsRule, KubernetesGround, slicesRule } from '../../contract/discovery/kubernetes-ground.ts'
import { eventually } from '../eventually.ts'
import { ApiFront } from './api-front.ts'
import type { NetworkReplicaOptions } from './network-replica.ts'
import { dnsAddress, type Host, testAddress } from './virtual-network.ts'

/** A fault of a source. */
export interface SourceFault {
  readonly name: string
  /** the log reports it within a minute */
  readonly isTold: boolean
  begin(): void
  /** Resolves once each replica has met the fault, where that can be seen. */
  met(): Promise<void>
  end(): void | Promise<void>
}

/** One source of discovery. */
export interface Round {
  readonly name: string
  /** Options of a replica with this name, which may have run before. */
  options(name: string): Promise<NetworkReplicaOptions>
  readonly faults: readonly SourceFault[]
  /** Makes the source list these from now on. */
  list(hosts: readonly Host[]): Promise<void>
}

/** longer than the longest pause between two tries, or two lists */
const patience = { timeoutMs: 45_000 }
const service = 'kas-private'
const gossipPort = { name: 'gossip', port: 8156, protocol: 'TCP' }
const ipv4 = (hosts: readonly Host[]) => hosts.map((host) => host.ipv4)

/** Replicas in pods, each with a front of its own before the API server. */
export async function kubernetesRound(
  t: Test,
  controlPlane: ControlPlane,
  kind: 'EndpointSlices' | 'Endpoints',
): Promise<Round> {
  const rule = kind === 'Endpoints' ? endpointsRule(service) : slicesRule
  const ground = await KubernetesGround.start(t, controlPlane, [rule])
  if (kind === 'Endpoints') {
    await ground.addEndpoints([])
    await ground.addSlice({ name: 'denied', hosts: ['10.44.0.99'] })
  } else await ground.addSlice({ name: 'one', hosts: [] })
  const authority = await Authority.create('front')
  const keys = await authority.issueServing({ dns: [], ip: [testAddress.ipv4] })
  /** fronts by name of the replica */
  const ways = new Map<string, ApiFront>()
  /** state of all fronts, also of one that is created now */
  let happens: (front: ApiFront) => void = () => undefined
  const atFronts = (name: string, begin: typeof happens, end: (front: ApiFront) => void | Promise<void>) => ({
    name,
    isTold: true,
    begin() {
      happens = begin
      for (const front of ways.values()) begin(front)
    },
    met: async () => undefined,
    async end() {
      happens = () => undefined
      await Promise.all(Array.from(ways.values(), end))
    },
  })
  const failing = (name: string, fault: FrontFault, more = { cut: true }): SourceFault => {
    const before = new Map<ApiFront, number>()
    const begin = (front: ApiFront) => {
      before.set(front, front.requests)
      front.fail(fault)
      if (more.cut) front.cut()
    }
    const met = async () => {
      const unmet = [...ways.values()].filter((front) => front.requests === before.get(front))
      if (unmet.length > 0) throw new Error(`${unmet.length} replicas have not asked since ${name}`)
    }
    return { ...atFronts(name, begin, (front) => front.fail(undefined)), met: () => eventually(met, patience) }
  }
  return {
    name: kind,
    async options(replica) {
      const ca = await readFile(controlPlane.caFile, 'utf8')
      const front = await ApiFront.start(t, { target: controlPlane.server, ca, host: testAddress.ipv4, keys })
      ways.get(replica)?.leave()
      ways.set(replica, front)
      happens(front)
      const { namespace, token } = ground
      const server = { host: testAddress.ipv4, port: front.port }
      return { discovery: { kubernetes: { service } }, pod: { namespace, token, ca: authority.certificate, server } }
    },
    faults: [
      atFronts(
        'away',
        (front) => front.leave(),
        (front) => front.comeBack(),
      ),
      { ...failing('slow', { delayMs: 4000 }, { cut: false }), isTold: false },
      frozen(controlPlane, 'frozen', () => undefined),
      frozen(controlPlane, 'frozen, after a cut', () => {
        for (const front of ways.values()) front.cut()
      }),
      ...[401, 403, 410, 429, 500, 503].map((status) => failing(`answering ${status}`, { status })),
    ],
    list: (hosts) =>
      kind === 'Endpoints'
        ? ground.changeEndpoints([{ addresses: ipv4(hosts).map((ip) => ({ ip })), ports: [gossipPort] }])
        : ground.changeSlice('one', ipv4(hosts)),
  }
}

/** @param then - makes the fault visible at once; without it, it shows at the next list */
function frozen(controlPlane: ControlPlane, name: string, then: () => void): SourceFault {
  return {
    name,
    isTold: true,
    begin() {
      controlPlane.signalApiServer('SIGSTOP')
      then()
    },
    met: async () => undefined,
    end: () => controlPlane.signalApiServer('SIGCONT'),
  }
}

export async function dnsRound(t: Test): Promise<Round> {
  const name = `${service}.kas.test`
  const server = await DnsServer.start(t, { host: dnsAddress, port: 53 })
  let listed: readonly Host[] = []
  const records: DnsServer['answer'] = (question) =>
    question.name === name ? listed.map((host) => (question.type === 'A' ? host.ipv4 : host.ipv6)) : 'nxdomain'
  server.answer = records
  const failing = (fault: 'servfail' | 'silence'): SourceFault => ({
    name: fault,
    isTold: true,
    begin: () => {
      server.answer = () => fault
    },
    met: async () => undefined,
    end: () => {
      server.answer = records
    },
  })
  return {
    name: 'dns',
    options: async () => ({ discovery: { dns: name }, resolver: dnsAddress }),
    faults: [failing('servfail'), failing('silence')],
    async list(hosts) {
      listed = hosts
    },
  }
}

/** A round with a fixed list: all replicas have it from the start. */
export function listRound(all: readonly Host[]): Round {
  const discovery = { static: all.map((host) => `${host.ipv4}:8156`) }
  return { name: 'a list', options: async () => ({ discovery }), faults: [], list: async () => undefined }
}

export async function discoveryRounds(t: Test, controlPlane: ControlPlane, all: readonly Host[]): Promise<Round[]> {
  return [
    await kubernetesRound(t, controlPlane, 'EndpointSlices'),
    await kubernetesRound(t, controlPlane, 'Endpoints'),
    await dnsRound(t),
    listRound(all),
  ]
}
