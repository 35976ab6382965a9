import { delay } from '../../../src/lib/signals.ts'
import type { Attack } from '../attack.ts'
import { EvilView, Mallory } from '../mallory.ts'

interface Size {
  readonly maps: number
  readonly patches: number
}

const label = 'attack=owner-chains'
const labels = { attack: 'owner-chains' }
const mapsOf = 'api/v1 configmaps'
const patchMs = 300

interface Made {
  readonly metadata: { readonly name: string; readonly uid: string }
}

const ownedBy = ({ metadata: { name, uid } }: Made) => [{ apiVersion: 'v1', kind: 'ConfigMap', name, uid }]

/**
 * Makes a chain of owners. An owner has a uid only once it is created, so each object is patched to name the one
 * before.
 */
async function chain(mallory: Mallory, count: number): Promise<Made[]> {
  const made = await mallory.create<Made>(
    mapsOf,
    Array.from({ length: count }, (_, i) => ({ metadata: { name: `link-${i}`, labels } })),
  )
  const owned = made.slice(1).map(({ metadata }, i) => ({ name: metadata.name, owner: made[i] as Made }))
  await mallory.patch(
    mapsOf,
    ...owned.map(({ name, owner }) => ({ name, body: { metadata: { ownerReferences: ownedBy(owner) } } })),
  )
  return made
}

export const ownerChains: Attack<Size, readonly Made[]> = {
  name: 'owner-chains',
  what: 'objects that own one another in a chain, whose ends are tied and untied',
  cluster: true,
  cheap: { maps: 150, patches: 8 },
  full: { maps: 6000, patches: 60 },
  async prepare(stage, { maps }, signal) {
    const mallory = new Mallory(stage, signal)
    const made = await chain(mallory, maps)
    const clean = async () => {
      await mallory.remove(mapsOf, label)
      mallory.close()
    }
    return { made, clean }
  },
  async play(stage, { patches }, signal, made) {
    const mallory = new Mallory(stage, signal)
    const view = await EvilView.open(stage, {}, signal)
    const end = async () => {
      view.close()
      mallory.close()
    }
    const [first, last] = [made[0] as Made, made.at(-1) as Made]
    try {
      for (let i = 0; i < patches; i++) {
        const ownerReferences = i % 2 === 0 ? ownedBy(last) : null
        await mallory.patch(mapsOf, { name: first.metadata.name, body: { metadata: { ownerReferences } } })
        await delay(patchMs, signal)
      }
    } catch (error) {
      await end()
      throw error
    }
    return { refusal: view.error, end }
  },
}
