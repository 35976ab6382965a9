import { readFile } from 'node:fs/promises'

/** Settings that make full names of short ones: resolv.conf(5). */
export interface SearchList {
  readonly domains: readonly string[]
  /** a name with fewer dots is first tried with the domains */
  readonly ndots: number
}

/** bound of a pod's search domains in Kubernetes */
const maxDomains = 32
/** bound of the option ndots, dots of a name, as in glibc */
const maxNdots = 15

/** Reads `search` (or `domain`) and `ndots` of a resolv.conf. The last of several counts. */
export function parseSearchList(text: string): SearchList {
  let domains: readonly string[] = []
  let ndots = 1
  for (const line of text.split('\n')) {
    const [word, ...rest] = line.trim().split(/\s+/)
    if (word === 'search') domains = rest
    if (word === 'domain') domains = rest.slice(0, 1)
    const option = word === 'options' ? rest.findLast((one) => /^ndots:\d+$/.test(one)) : undefined
    if (option) ndots = Math.min(Number(option.slice('ndots:'.length)), maxNdots)
  }
  const plain = domains.map((domain) => domain.replace(/\.$/, '')).filter((domain) => domain !== '')
  return { domains: plain.slice(0, maxDomains), ndots }
}

/** Reads this system's list; empty if there is no resolv.conf. */
export async function readSearchList(file = '/etc/resolv.conf'): Promise<SearchList> {
  return parseSearchList(await readFile(file, 'utf8').catch(() => ''))
}

/** Returns the full names to query, in this order, until one exists. A name that ends with a dot is full already. */
export function fullNames(name: string, list: SearchList): string[] {
  if (name.endsWith('.')) return [name.slice(0, -1)]
  const longer = list.domains.map((domain) => `${name}.${domain}`)
  const dots = name.split('.').length - 1
  return dots >= list.ndots ? [name, ...longer] : [...longer, name]
}
