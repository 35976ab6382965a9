import t from 'tap'
import { missingAssets } from '../../dev/control-plane/assets.ts'
import { attacks as all } from './attacks.ts'
import { playAll, timeoutOf } from './small-size.ts'

/**
 * Each attack by a user who shares a real API server and its agentk with good tenants, in a small size. No pod runs
 * there.
 */

const assets = process.env.KUBEBUILDER_ASSETS ?? ''
const missing = missingAssets(assets, 'api')
const skip = missing.length > 0 && `needs ${missing.join(', ')}`
const attacks = all.filter(({ cluster }) => cluster)

t.test('a neighbour\u2019s cost is her own', { skip, timeout: timeoutOf(attacks) }, (t) =>
  playAll(t, { attacks, ground: { assets }, execs: 0 }),
)
