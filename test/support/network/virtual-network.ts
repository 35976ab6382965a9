import { mkdir } from 'node:fs/promises'
import { command } from './command.ts'

/** One host of the network. */
export interface Host {
  /** name of its network namespace */
  readonly name: string
  readonly ipv4: string
  readonly ipv6: string
}

/** addresses of the bridge, where the test itself is */
export const testAddress = { ipv4: '10.44.0.1', ipv6: 'fd44::1' }
/** an address of the test for one server alone, which may use any port there */
export const dnsAddress = '10.44.0.53'

const bridge = 'kas-bridge'
const firstHost = 10
/** Drop rules have a lower number than the rule that delivers to this host, so they come first. */
const deliverPreference = '100'
const dropPreference = '10'
const allowPreference = '5'

/**
 * Hosts with addresses of their own on one Ethernet: network namespaces, each on a bridge by a pair of virtual
 * interfaces. It needs a network of its own (`inOwnNetwork`), with which all of it ends.
 */
export class VirtualNetwork {
  readonly #hosts: Host[] = []

  static async start(): Promise<VirtualNetwork> {
    await command('mount', '-t', 'tmpfs', 'tmpfs', '/run')
    await mkdir('/run/netns')
    await ip(
      'link set lo up',
      `link add ${bridge} type bridge forward_delay 0`,
      `address add ${testAddress.ipv4}/24 dev ${bridge}`,
      `address add ${dnsAddress}/24 dev ${bridge}`,
      `-6 address add ${testAddress.ipv6}/64 dev ${bridge} nodad`,
      `link set ${bridge} up`,
    )
    return new VirtualNetwork()
  }

  async add(name: string): Promise<Host> {
    const number = firstHost + this.#hosts.length
    const host = { name, ipv4: `10.44.0.${number}`, ipv6: `fd44::${number}` }
    this.#hosts.push(host)
    await command('ip', 'netns', 'add', name)
    await ip(`link add eth0 netns ${name} type veth peer name ${name}`, `link set ${name} master ${bridge} up`)
    await inside(
      host,
      'link set lo up',
      `address add ${host.ipv4}/24 dev eth0`,
      `-6 address add ${host.ipv6}/64 dev eth0 nodad`,
      'link set eth0 up',
      ...['-4', '-6'].flatMap((family) => [
        `${family} rule add pref ${deliverPreference} lookup local`,
        `${family} rule del pref 0`,
      ]),
    )
    return host
  }

  /**
   * Drops, from now on and without a word, packets of the two to a server of the other at `port`, on open connections
   * too.
   */
  async cut(one: Host, other: Host, port: number): Promise<void> {
    await this.#rules('add', [one, other], port)
  }

  async heal(one: Host, other: Host, port: number): Promise<void> {
    await this.#rules('del', [one, other], port)
  }

  /**
   * Limits the host's TCP, UDP and ICMP to this port of the other host. Packets to the same port of hosts in `silent`
   * leave, and no answer comes; other packets do not even leave.
   */
  async confine({ name, ipv4: own }: Host, to: Host, port: number, silent: readonly Host[] = []): Promise<void> {
    const allowed = [to, ...silent].map(
      ({ ipv4 }) => `-4 rule add pref ${allowPreference} iif lo to ${ipv4} ipproto tcp dport ${port} lookup main`,
    )
    const closed = ['tcp', 'udp', 'icmp'].map(
      (protocol) => `-4 rule add pref ${dropPreference} ipproto ${protocol} blackhole`,
    )
    await inside(
      { name },
      ...['127.0.0.0/8', own].map((self) => `-4 rule add pref ${allowPreference} iif lo to ${self} lookup local`),
      ...allowed,
      `-4 rule add pref ${allowPreference} iif eth0 from ${to.ipv4} ipproto tcp sport ${port} lookup local`,
      ...closed,
      `-6 rule add pref ${dropPreference} blackhole`,
    )
  }

  /** Resets all connections of the host from or to `port`. @returns their number */
  async reset({ name }: Host, port: number): Promise<number> {
    const filter = `( sport = :${port} or dport = :${port} )`
    const closed = await command('ip', 'netns', 'exec', name, 'ss', '-HKtn', 'state', 'established', filter)
    return closed.split('\n').filter((line) => line !== '').length
  }

  async #rules(what: 'add' | 'del', [one, other]: readonly [Host, Host], port: number): Promise<void> {
    for (const [at, from] of [
      [one, other],
      [other, one],
    ] as const) {
      const drop = (family: string, address: string) =>
        ['dport', 'sport'].map(
          (side) =>
            `${family} rule ${what} pref ${dropPreference} iif eth0 from ${address} ipproto tcp ${side} ${port} blackhole`,
        )
      await inside(at, ...drop('-4', from.ipv4), ...drop('-6', from.ipv6))
    }
  }
}

async function ip(...lines: string[]): Promise<void> {
  for (const line of lines) await command('ip', ...line.split(' '))
}

async function inside({ name }: Pick<Host, 'name'>, ...lines: string[]): Promise<void> {
  await ip(...lines.map((line) => `-n ${name} ${line}`))
}
