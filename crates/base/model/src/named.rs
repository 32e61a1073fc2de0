//! Enums whose values have names.

/// Makes an enum of values with names: `ALL`, `name`, `from_name`, and `Display`, which writes the
/// name. Derives beyond `Clone`, `Copy`, `Debug`, `PartialEq`, `Eq` and `Hash` are given as
/// attributes.
#[macro_export]
macro_rules! named {
    ($(#[$about:meta])* $type:ident { $($(#[$doc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $type { $($(#[$doc])* $variant,)* }

        impl $type {
            /// All of them, in this order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Its name in files, in JSON, on the command line and in logs.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The one of that name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.name() == name)
            }
        }

        impl ::std::fmt::Display for $type {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}
