// What a program in TypeScript writes with the generated types.
import type { components, operations, paths } from "./headway";

type Schemas = components["schemas"];
type Held = operations["list_held_changes"]["responses"]["200"]["content"]["application/json"];
type Approval = NonNullable<operations["approve_changes"]["requestBody"]>["content"]["application/json"];

export const sellers = (page: Held): string[] => page.items.map((change) => change.seller);
export const price = (product: Schemas["ProductView"]): string | null => product.shop_price;
export const path: keyof paths = "/api/sync/approve";
export const approval: Partial<Approval> = { skus: ["WF338109=K3"], seller: "acme" };
