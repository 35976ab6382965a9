import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { agentFileKeyRows, agentFileRows } from './agent-file-rows.ts'
import { agentkRows } from './agentk-rows.ts'
import { agentErrorRows, agentMethodRows, agentTransportRows } from './agents-rows.ts'
import { configurationKeyRows, configurationRows } from './configuration-rows.ts'
import { configurationStreamRows, fluxRows, gitalyRows, gitlabAccessRows } from './follow-rows.ts'
import { messageRows } from './message-rows.ts'
import { healthRows, logRows, metricRows, usageRows } from './operator-rows.ts'
import {
  accessRows,
  credentialRows,
  errorRows,
  limitRows,
  proxyOrderRows,
  transformRows,
  upgradeRows,
  watchApiRows,
} from './proxy-rows.ts'
import { gitlabCallRows, gitlabRows, railsAuthRows, railsMethodRows } from './rails-rows.ts'
import type { WireSection } from './row.ts'
import { findingRows, httpRows, tunnelRows } from './tunnel-rows.ts'

/** a file with every key of upstream's configuration */
const upstreamFile = 'test/support/stock-configuration/upstream.yaml'

/** All rows, in the order of doc/wire.md. */
export function wireSections(root: string): readonly WireSection[] {
  return [
    agentMethodRows,
    agentTransportRows,
    agentErrorRows,
    tunnelRows,
    findingRows,
    httpRows,
    configurationStreamRows,
    fluxRows,
    gitlabAccessRows,
    railsMethodRows,
    railsAuthRows,
    gitlabRows,
    gitlabCallRows,
    gitalyRows,
    proxyOrderRows,
    credentialRows,
    accessRows,
    transformRows,
    upgradeRows,
    errorRows,
    limitRows,
    watchApiRows,
    metricRows,
    usageRows,
    healthRows,
    logRows,
    configurationRows,
    configurationKeyRows(readFileSync(join(root, upstreamFile), 'utf8')),
    agentFileRows,
    agentFileKeyRows,
    agentkRows,
    messageRows,
  ]
}
