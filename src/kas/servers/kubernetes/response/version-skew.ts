/**
 * Checks that an agent's version fits this kas: GitLab supports agents of its own minor version, the one before and the
 * one after. Users read the warning, because kubectl prints it (doc/reference/tunnel-protocol.md 6.4 `Warning`).
 */

import { warning } from './warning.ts'

/** Minor versions of a major version of GitLab: 0 to 11. */
const minorsPerMajor = 12
/** Versions of agents that are cached: a cluster could invent any number. */
const maxRemembered = 256
/** Characters of an entry of Via that are read: agents can write anything, and longer entries have no meaning. */
const maxEntryLength = 256
const agentEntry = /(?:^|\s)gitlab-agent\/([^/\s]*)/
const semantic = /^v?(\d{1,4})\.(\d{1,4})\.\d{1,6}(?![\d.])/

interface Served {
  /** version of this program: an agentk of the same release fits too */
  readonly kas: string
  /** version that kas reports to GitLab, which offers agents of it: `cluster.advertised_version` */
  readonly gitlab: string
}

export class VersionSkew {
  readonly #served: readonly number[]
  readonly #gitlab: Release | undefined
  readonly #warnings = new Map<string, string | undefined>()

  constructor({ kas, gitlab }: Served) {
    this.#gitlab = parse(gitlab)
    this.#served = [this.#gitlab, parse(kas)].flatMap((release) => (release ? [release.place] : []))
  }

  /**
   * Returns the text of the Warning header; undefined: the agent fits.
   *
   * @param via - last value of the answer's Via, to which agentk has added its entry
   */
  warningFor(via = ''): string | undefined {
    const last = via.slice(via.lastIndexOf(',') + 1) // entry of agentk
    const entry = last.length <= maxEntryLength ? last : ''
    if (this.#warnings.has(entry)) return this.#warnings.get(entry)
    const warning = this.#compare(agentEntry.exec(entry)?.[1])
    if (this.#warnings.size >= maxRemembered) this.#warnings.clear()
    this.#warnings.set(entry, warning)
    return warning
  }

  #compare(version = ''): string | undefined {
    const gitlab = this.#gitlab
    if (!gitlab) return undefined
    const agent = parse(version)
    if (!agent) return warning(`The version of the agent cannot be checked. That of GitLab is ${gitlab.text}`)
    if (this.#served.some((place) => Math.abs(place - agent.place) <= 1)) return undefined
    const than = `is ${agent.place < gitlab.place ? 'outdated' : 'newer than GitLab'}`
    const range = `${nameOf(gitlab.place - 1)} to ${nameOf(gitlab.place + 1)}`
    return warning(`The version of the agent, ${agent.text}, ${than}: GitLab ${gitlab.text} supports ${range}`)
  }
}

interface Release {
  /** numbers alone, without a suffix */
  readonly text: string
  /** position among all minor versions, across major versions */
  readonly place: number
}

function parse(version: string): Release | undefined {
  const found = semantic.exec(version)
  if (!found) return undefined
  const [text, major, minor] = found as unknown as [string, string, string]
  return { text: text.startsWith('v') ? text : `v${text}`, place: Number(major) * minorsPerMajor + Number(minor) }
}

function nameOf(place: number): string {
  return `v${Math.floor(place / minorsPerMajor)}.${place % minorsPerMajor}`
}
